#include "text/stop_matcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace pagoda::text {
namespace {

struct Outcome {
  std::string text;
  bool stopped = false;
  int stop_index = -1;
};

Outcome run(const std::vector<std::string>& pieces, const std::vector<std::string>& stops,
            bool include_stop = false) {
  StopMatcher matcher(stops, include_stop);
  Outcome result;
  for (const std::string& piece : pieces) {
    const StopMatcher::Output output = matcher.push(piece);
    result.text += output.text;
    if (output.stopped) {
      result.stopped = true;
      result.stop_index = output.stop_index;
      break;
    }
  }
  result.text += matcher.finish();
  return result;
}

void expect_run(const std::vector<std::string>& pieces, const std::vector<std::string>& stops,
                const std::string& text, int stop_index, bool include_stop = false) {
  const Outcome result = run(pieces, stops, include_stop);
  EXPECT_EQ(result.text, text);
  EXPECT_EQ(result.stopped, stop_index >= 0) << text;
  EXPECT_EQ(result.stop_index, stop_index) << text;
}

// The table of CASES B005.
TEST(StopMatcher, table) {
  expect_run({"DEF", "G", "HI", "J"}, {"DEFGHIJ"}, "", 0);
  expect_run({"DEF", "G", "HX"}, {"DEFGHIJ"}, "DEFGHX", -1);
  expect_run({"a", "a", "a", "b", "c"}, {"aab"}, "a", 0);
  expect_run({"sto", "p!"}, {"top"}, "s", 0);
  expect_run({"x\n", "\n", "y"}, {"\n\n"}, "x", 0);
  expect_run({"abcX", "defY"}, {"Y", "X"}, "abc", 1);
  expect_run({"ab", "cd"}, {"d", "bcd"}, "a", 1);
  expect_run({"END"}, {"END"}, "", 0);
  expect_run({"DE"}, {"DEFGHIJ"}, "DE", -1);
  expect_run({"hello wor", "ld!"}, {"world"}, "hello world", 0, true);
}

TEST(StopMatcher, without_stops_everything_passes_at_once) {
  StopMatcher matcher({}, false);
  EXPECT_EQ(matcher.push("anything").text, "anything");
  EXPECT_EQ(matcher.finish(), "");
}

// CASES B006: what cannot become a stop any more is not held back.
TEST(StopMatcher, holds_back_no_more_than_a_beginning_of_a_stop) {
  StopMatcher never({"zzzzzzzzzz"}, false);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(never.push("x").text, "x");
  StopMatcher some({"zzz", "yz"}, false);
  EXPECT_EQ(some.push("az").text, "a");
  EXPECT_EQ(some.push("z").text, "");
  EXPECT_EQ(some.push("b").text, "zzb");
  EXPECT_EQ(some.push("y").text, "");
  EXPECT_EQ(some.push("y").text, "y");
  EXPECT_TRUE(some.push("z").stopped);
}

TEST(StopMatcher, nothing_follows_a_match) {
  StopMatcher matcher({"."}, false);
  EXPECT_TRUE(matcher.push("a.b").stopped);
  const StopMatcher::Output again = matcher.push("more");
  EXPECT_TRUE(again.stopped);
  EXPECT_EQ(again.stop_index, 0);
  EXPECT_EQ(again.text, "");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, multibyte_stops_match_whole_characters) {
  expect_run({"a", "é", "è", "。"}, {"。", "èx"}, "aéè", 0);
  StopMatcher matcher({"。"}, false);
  EXPECT_EQ(matcher.push("、").text, "、") << "the same first byte is no reason to wait";
}

// The definition, tried at every position.
Outcome reference(const std::string& text, const std::vector<std::string>& stops, bool include_stop) {
  for (size_t end = 1; end <= text.size(); ++end) {
    int best = -1;
    for (size_t i = 0; i < stops.size(); ++i) {
      const bool ends_here =
          end >= stops[i].size() && text.compare(end - stops[i].size(), stops[i].size(), stops[i]) == 0;
      if (ends_here && (best < 0 || stops[i].size() > stops[static_cast<size_t>(best)].size()))
        best = static_cast<int>(i);
    }
    if (best >= 0)
      return {text.substr(0, include_stop ? end : end - stops[static_cast<size_t>(best)].size()), true, best};
  }
  return {text, false, -1};
}

std::string random_text(std::mt19937_64& rng, size_t length) {
  std::string text;
  for (size_t i = 0; i < length; ++i) text += static_cast<char>('a' + rng() % 2);
  return text;
}

// What may be held after `text`: the longest end of it that begins a stop.
size_t longest_beginning(const std::string& text, const std::vector<std::string>& stops) {
  size_t longest = 0;
  for (const std::string& stop : stops) {
    for (size_t length = std::min(stop.size() - 1, text.size()); length > longest; --length) {
      if (text.compare(text.size() - length, length, stop, 0, length) == 0) longest = length;
    }
  }
  return longest;
}

TEST(StopMatcher, equals_the_definition_for_any_split_into_pieces) {
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    std::mt19937_64 rng(seed);
    const std::string text = random_text(rng, rng() % 20);
    std::vector<std::string> stops;
    for (uint64_t i = 0, count = 1 + rng() % 4; i < count; ++i)
      stops.push_back(random_text(rng, 1 + rng() % 6));
    const bool include_stop = rng() % 2 == 0;
    const Outcome expected = reference(text, stops, include_stop);
    StopMatcher matcher(stops, include_stop);
    Outcome got;
    std::string seen;
    for (size_t at = 0; at < text.size() && !got.stopped;) {
      const size_t size = std::min(text.size() - at, static_cast<size_t>(rng() % 4));
      const StopMatcher::Output output = matcher.push(text.substr(at, size));
      seen += text.substr(at, size);
      at += size;
      got.text += output.text;
      got.stopped = output.stopped;
      got.stop_index = output.stop_index;
      if (!output.stopped) {
        ASSERT_EQ(seen.size() - got.text.size(), longest_beginning(seen, stops)) << "seed " << seed;
      }
    }
    got.text += matcher.finish();
    ASSERT_EQ(got.text, expected.text) << "seed " << seed;
    ASSERT_EQ(got.stopped, expected.stopped) << "seed " << seed;
    ASSERT_EQ(got.stop_index < 0 ? "" : stops[static_cast<size_t>(got.stop_index)],
              expected.stop_index < 0 ? "" : stops[static_cast<size_t>(expected.stop_index)])
        << "seed " << seed;
  }
}

}  // namespace
}  // namespace pagoda::text
