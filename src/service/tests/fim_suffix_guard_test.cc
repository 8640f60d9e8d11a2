#include "service/fim_suffix_guard.h"

#include <gtest/gtest.h>

#include <random>

namespace pagoda::service {
namespace {

// The output of a model that says `text`, in pieces of `step` bytes.
std::string say(const std::string& suffix, const std::string& text, size_t step = 1,
                bool at_line_start = false) {
  FimSuffixGuard guard(suffix, at_line_start);
  std::string out;
  for (size_t at = 0; at < text.size(); at += step) out += guard.push(text.substr(at, step));
  return out + guard.finish();
}

struct Case {
  const char* suffix;
  const char* said;
  const char* kept;
  bool at_line_start = false;
};

TEST(FimSuffixGuard, lines_of_the_suffix) {
  const Case cases[] = {
      // The line comes back, with the blank text before it as far as the suffix has that.
      {"\n\nprint(add(1, 2))", "return a + b\n\nprint(add(1, 2))", "return a + b"},
      {"\n\nprint(add(1, 2))", "return a + b\n\nprint(add(1, 2))\nmore", "return a + b"},
      {"\n\nprint(add(1, 2))", "return a + b\nprint(add(1, 2))\n", "return a + b"},
      {"\n\nprint(add(1, 2))", "return a + b\n\n\n\nprint(add(1, 2))", "return a + b\n\n"},
      {"\n}\n", "x = 1;\n}\nint main() {", "x = 1;"},
      {"\r\n}\r\n", "x = 1;\r\n}\r\nint", "x = 1;"},
      {"\n    return x\n", "x = 1  \n    return x  \nfoo", "x = 1  "},
      {"\n\t\n}\n", "x\n\t\n}\n", "x"},
      // Not the same line.
      {"\n}\n", "if (x) {\n    y();\n  }\n  z();", "if (x) {\n    y();\n  }\n  z();"},
      {"\nprint(a)\n", "x\nprint(a) + 1\ny", "x\nprint(a) + 1\ny"},
      {"\nprint(a)\n", "x\nprint(a", "x\nprint(a"},
      {"\nprint(a)\n", "x\n print(a)\n", "x\n print(a)\n"},
      {"\nprint(a)\n", "x print(a)\ny", "x print(a)\ny"},
      {"\nprint(a)\n", "print(a)\ny", "print(a)\ny"},  // the rest of the cursor's line is no line
      // But it is one when the cursor stands at a line's start.
      {"\nprint(a)\n", "print(a)\ny", "", true},
      {"\nprint(a)\n", "\nprint(a)\ny", "", true},
      // Nothing to repeat.
      {"", "a\n\nb", "a\n\nb"},
      {" \n\n ", "a\n\n b\n", "a\n\n b\n"},
  };
  for (const Case& c : cases) {
    for (const size_t step : {1u, 2u, 3u, 5u, 100u})
      EXPECT_EQ(say(c.suffix, c.said, step, c.at_line_start), c.kept)
          << c.suffix << " | " << c.said << " | " << step;
  }
}

TEST(FimSuffixGuard, rest_of_the_cursor_line) {
  const Case cases[] = {
      {")\n", "a, b)\nprint(c)", "a, b"},
      {")\n", "a, b)", "a, b"},
      {")\n", "f(x)", "f(x)"},     // closes a bracket of its own
      {")\n", "f(x))\n", "f(x)"},  // and one more
      {", timeout=5)\nfoo", "url, timeout=5)\nfoo", "url"},
      {", timeout=5)\nfoo", "f(url, timeout=5)\n", "f(url, timeout=5)\n"},
      {";", "5;\nint y;", "5"},
      {";", "5; // five\nint y", "5; // five\nint y"},
      {":\n    pass", "x > 3:\n    return", "x > 3"},
      {" {\n", "x > 3 {\n", "x > 3"},
      {"\")", "hello\")\n", "hello"},
      {" + 1  \n", "x + 1\n", "x"},
      {"}", "\n  a;\n}\nb", "\n  a;\n"},
  };
  for (const Case& c : cases) {
    for (const size_t step : {1u, 2u, 3u, 100u})
      EXPECT_EQ(say(c.suffix, c.said, step), c.kept) << c.suffix << " | " << c.said << " | " << step;
  }
}

TEST(FimSuffixGuard, holds_back_no_more_than_it_must) {
  FimSuffixGuard guard("\n\nprint(a)", false);
  EXPECT_EQ(guard.push("return"), "return");
  EXPECT_EQ(guard.push("\n"), "");
  EXPECT_EQ(guard.push("x"), "\nx");
  EXPECT_EQ(guard.push("\n\n\n"), "\n");
  EXPECT_EQ(guard.push("pri"), "");
  EXPECT_EQ(guard.push("or"), "\n\nprior");
  EXPECT_EQ(guard.push("\nprint(a) "), "");
  EXPECT_EQ(guard.push("+"), "\nprint(a) +");
  EXPECT_EQ(guard.push("\nprint(a)\n"), "");
  EXPECT_TRUE(guard.stopped());
  EXPECT_EQ(guard.line(), "print(a)");
  EXPECT_EQ(guard.push("more"), "");
  EXPECT_EQ(guard.finish(), "");
}

TEST(FimSuffixGuard, what_must_pass_passes) {
  FimSuffixGuard guard("\nx\n", false);
  EXPECT_EQ(guard.push("a\n"), "a");
  EXPECT_EQ(guard.pass("x\n"), "\nx\n");
  EXPECT_FALSE(guard.stopped());
  EXPECT_EQ(guard.push("x\n"), "");
  EXPECT_TRUE(guard.stopped()) << "the line began behind what passed";
}

// Where the text is cut into pieces changes nothing, and what isn't cut off arrives whole.
TEST(FimSuffixGuard, pieces_do_not_matter) {
  std::mt19937 random(7);
  const auto text = [&](size_t size) {
    static constexpr std::string_view kLetters = "a \n()b";
    std::string out;
    for (size_t i = 0; i < size; ++i) out += kLetters[random() % kLetters.size()];
    return out;
  };
  int stopped = 0;
  for (int round = 0; round < 20000; ++round) {
    const std::string suffix = text(1 + random() % 6), said = text(random() % 24);
    const bool start = random() % 2 == 0;
    const std::string whole = say(suffix, said, 100, start);
    ASSERT_EQ(say(suffix, said, 1, start), whole) << suffix << "|" << said;
    ASSERT_EQ(say(suffix, said, 3, start), whole) << suffix << "|" << said;
    ASSERT_TRUE(said.starts_with(whole));
    stopped += whole != said;
  }
  EXPECT_GT(stopped, 1000);
}

TEST(FimSuffixGuard, hostile_sizes) {
  EXPECT_EQ(say(std::string(100000, '\n') + "x", "a\n\nx\n"), "a");
  EXPECT_EQ(say(std::string(2000, 'x'), std::string(2000, 'x'), 7), std::string(2000, 'x'));
  EXPECT_EQ(say("\nx", "\nx" + std::string(20000, ' ') + "\n", 1), "\nx" + std::string(20000, ' ') + "\n");
}

}  // namespace
}  // namespace pagoda::service
