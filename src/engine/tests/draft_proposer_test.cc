#include "engine/draft_proposer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string_view>

namespace pagoda::engine {
namespace {

std::vector<TokenId> tokens_of(std::string_view text) {
  std::vector<TokenId> tokens;
  for (const char c : text) tokens.push_back({c});
  return tokens;
}

std::string text_of(std::span<const TokenId> tokens) {
  std::string text;
  for (const TokenId token : tokens) text += static_cast<char>(token.value);
  return text;
}

constexpr SpeculationOptions kOptions{.num_tokens = 16, .min_match = 4, .max_match = 8};

// What it proposes behind `text`.
std::string drafts_of(DraftProposer& proposer, std::string_view text) {
  std::vector<TokenId> tokens = tokens_of(text);
  const int count = proposer.propose(tokens);
  if (count == 0) return "";
  proposer.append(count, tokens);
  return text_of(std::span(tokens).subspan(text.size()));
}
std::string drafts_of(std::string_view text, const SpeculationOptions& options = kOptions) {
  DraftProposer proposer(options);
  return drafts_of(proposer, text);
}

TEST(DraftProposerTest, GoesOnAsBefore) {
  EXPECT_EQ(drafts_of("the first word, the fir"), "st w");
}

TEST(DraftProposerTest, ShortMatchesAreNone) {
  EXPECT_EQ(drafts_of("abc123-abc"), "");
  EXPECT_EQ(drafts_of("abcd123-abcd"), "123-");
  EXPECT_EQ(drafts_of("abcd123-abcd", {.num_tokens = 16, .min_match = 5, .max_match = 8}), "");
  EXPECT_EQ(drafts_of(""), "");
  EXPECT_EQ(drafts_of("abc"), "");
  EXPECT_EQ(drafts_of("no two runs of 4 here"), "");
}

TEST(DraftProposerTest, TheLatestOfEqualPlacesCounts) {
  EXPECT_EQ(drafts_of("-abcd1111-abcd2222-abcd"), "2222");
}

TEST(DraftProposerTest, ALongerMatchBeatsALaterOne) {
  EXPECT_EQ(drafts_of("xxabcd1111 yyabcd2222 xxabcd"), "1111");
  // Not beyond max_match.
  EXPECT_EQ(drafts_of("xxabcd1111 yyabcd2222 xxabcd", {.num_tokens = 16, .min_match = 4, .max_match = 4}),
            "2222");
}

TEST(DraftProposerTest, ACircleIsFollowedBeyondItsEnd) {
  EXPECT_EQ(drafts_of("ababab"), "abab");
  EXPECT_EQ(drafts_of("zzzzz"), "zzzz");
}

TEST(DraftProposerTest, TheSourceStaysWhileItForetells) {
  DraftProposer proposer(kOptions);
  const std::string base = "one: call(x); two: call(x); three. one: cal";
  EXPECT_EQ(drafts_of(proposer, base), "l(x)");
  // The latest place of "all(x)" is the second one, but the copy began at the first.
  EXPECT_EQ(drafts_of(proposer, base + "l(x); "), "two:");
}

TEST(DraftProposerTest, GoesOnBehindAnEdit) {
  const std::string source = "let value = compute(alpha, beta); return value; ";
  DraftProposer proposer(kOptions);
  EXPECT_EQ(drafts_of(proposer, source + "let val"), "ue =");
  // Another word of another length: two equal tokens behind it are enough.
  EXPECT_EQ(drafts_of(proposer, source + "let valX"), "");
  EXPECT_EQ(drafts_of(proposer, source + "let valX ="), " com");
  // Far from the place, two are not.
  EXPECT_EQ(drafts_of(source + "0123456789 ="), "");
}

TEST(DraftProposerTest, TokensThatWereLeftOutCount) {
  const std::string source = "let value = compute(alpha, beta); ";
  DraftProposer proposer(kOptions);
  EXPECT_EQ(drafts_of(proposer, source + "let val"), "ue =");
  EXPECT_EQ(drafts_of(proposer, source + "let val = "), "comp");
}

int wanted(DraftProposer& proposer, const std::vector<TokenId>& tokens) {
  return proposer.propose(tokens);
}

TEST(DraftProposerTest, GrowsWhileAllAreRightAndShrinksWithWhatIs) {
  DraftProposer proposer(kOptions);
  const auto tokens = tokens_of("abababab");
  EXPECT_EQ(wanted(proposer, tokens), 4);
  proposer.note_result(4, 4);
  EXPECT_EQ(wanted(proposer, tokens), 8);
  proposer.note_result(5, 5);  // fewer than asked for: says nothing about 8
  EXPECT_EQ(wanted(proposer, tokens), 8);
  proposer.note_result(8, 8);
  EXPECT_EQ(wanted(proposer, tokens), 16);
  proposer.note_result(16, 16);
  EXPECT_EQ(wanted(proposer, tokens), 16) << "the most that the options allow";
  proposer.note_result(16, 7);
  EXPECT_EQ(wanted(proposer, tokens), 7);
  proposer.note_result(7, 1);
  EXPECT_EQ(wanted(proposer, tokens), 4);
}

TEST(DraftProposerTest, FewDraftsAreNeverExceeded) {
  DraftProposer proposer({.num_tokens = 2, .min_match = 1, .max_match = 1});
  const auto tokens = tokens_of("aaaa");
  EXPECT_EQ(wanted(proposer, tokens), 2);
  proposer.note_result(2, 2);
  EXPECT_EQ(wanted(proposer, tokens), 2);
  proposer.note_result(2, 0);
  EXPECT_EQ(wanted(proposer, tokens), 2);
}

// Tokens until it drafts again.
int pause_of(DraftProposer& proposer, std::vector<TokenId>& tokens) {
  int count = 0;
  while (proposer.propose(tokens) == 0) {
    tokens.push_back({'z'});
    ++count;
  }
  return count;
}

TEST(DraftProposerTest, MissesBringPausesThatDouble) {
  DraftProposer proposer(kOptions);
  auto tokens = tokens_of("zzzzzzzz");
  ASSERT_EQ(pause_of(proposer, tokens), 0);
  proposer.note_result(4, 0);
  EXPECT_EQ(pause_of(proposer, tokens), 0) << "one miss may be an edit";
  for (const int pause : {8, 16, 32, 64, 128, 256, 512, 512, 512}) {
    proposer.note_result(4, 0);
    EXPECT_EQ(pause_of(proposer, tokens), pause);
  }
  proposer.note_result(4, 1);
  EXPECT_EQ(pause_of(proposer, tokens), 0);
  proposer.note_result(4, 0);
  EXPECT_EQ(pause_of(proposer, tokens), 0) << "a right draft makes good for all misses";
  proposer.note_result(4, 0);
  EXPECT_EQ(pause_of(proposer, tokens), 8);
}

// The index against a search of the whole text: equal or longer tails never escape it, but for places that
// more than 16 others with the same run came after.
TEST(DraftProposerTest, FindsWhatASearchOfTheWholeTextFinds) {
  std::mt19937 random(7);
  int found = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<TokenId> tokens;
    const int vocab = 12;
    for (int i = 0; i < 200; ++i) tokens.push_back({static_cast<int32_t>(random() % vocab)});
    const SpeculationOptions options{.num_tokens = 1, .min_match = 3, .max_match = 200};
    size_t best = 0, longest = 2;
    for (size_t place = tokens.size() - 1; place > 0; --place) {
      size_t length = 0;
      while (length < place && tokens[place - 1 - length] == tokens[tokens.size() - 1 - length]) ++length;
      if (length > longest) {
        longest = length;
        best = place;
      }
    }
    DraftProposer proposer(options);
    auto drafted = tokens;
    ASSERT_EQ(proposer.propose(tokens), best == 0 ? 0 : 1);
    if (best == 0) continue;
    ++found;
    proposer.append(1, drafted);
    EXPECT_EQ(drafted.back(), tokens[best]);
  }
  EXPECT_GT(found, 20);
  EXPECT_LT(found, 280);
}

TEST(DraftProposerTest, TokenByTokenIsAsAllAtOnce) {
  std::mt19937 random(3);
  std::vector<TokenId> grown;
  DraftProposer steady({.num_tokens = 4, .min_match = 3, .max_match = 3});
  for (int i = 0; i < 3000; ++i) {
    grown.push_back({static_cast<int32_t>(random() % 40)});
    DraftProposer fresh({.num_tokens = 4, .min_match = 3, .max_match = 3});
    // The grown one may follow a source or an edit that a fresh one knows nothing of.
    if (i % 50 == 0 && fresh.propose(grown) > 0) {
      EXPECT_GT(steady.propose(grown), 0) << i;
    }
    steady.propose(grown);
  }
}

TEST(DraftProposerTest, MemoryIsBoundedByTheRoomForTokens) {
  DraftProposer proposer(kOptions);
  std::vector<TokenId> tokens;
  tokens.reserve(100000);
  std::mt19937 random(5);
  size_t after_first = 0;
  while (tokens.size() < 100000) {
    tokens.push_back({static_cast<int32_t>(random() % 50000)});
    proposer.propose(tokens);
    if (after_first == 0) after_first = proposer.memory_bytes();
  }
  EXPECT_EQ(proposer.memory_bytes(), after_first) << "room from the start, as the tokens have";
  EXPECT_LE(proposer.memory_bytes(), 12 * 100000u + 64);
  while (tokens.size() < 150000) {
    tokens.push_back({static_cast<int32_t>(random() % 50000)});
    proposer.propose(tokens);
  }
  EXPECT_LE(proposer.memory_bytes(), 12 * tokens.capacity() + 64);
}

// A text of one run all over: every place has the same hash, and the search must stay short. A quadratic
// one would take 2 * 10^10 steps here.
TEST(DraftProposerTest, OneRunAllOverTakesNoLonger) {
  DraftProposer proposer({.num_tokens = 4, .min_match = 4, .max_match = 256});
  std::vector<TokenId> tokens;
  for (int i = 0; i < 200000; ++i) {
    // Blocks that differ in one token, so that sources are lost all the time.
    tokens.push_back({i % 40 == 39 ? i : 1});
    proposer.propose(tokens);
  }
}

}  // namespace
}  // namespace pagoda::engine
