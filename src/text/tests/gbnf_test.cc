#include "text/gbnf.h"

#include <gtest/gtest.h>

#include <string>

#include "text/tests/grammar_walk.h"

namespace pagoda::text {
namespace {

bool matches(const std::string& gbnf, const std::string& text) {
  return accepts(GrammarKind::kGbnf, gbnf, text);
}

std::string message_of(const std::string& gbnf) {
  const auto lark = gbnf_to_lark(gbnf);
  return lark ? "" : lark.error().message;
}

TEST(Gbnf, AlternativesSequencesAndGroups) {
  const std::string grammar = "root ::= \"a\" (\"b\" | \"c\" \"d\") tail |\n  \"x\"\ntail ::= | \"!\"\n";
  for (const char* right : {"ab", "acd", "ab!", "x"}) EXPECT_TRUE(matches(grammar, right)) << right;
  for (const char* wrong : {"a", "acb", "xab", "x!"}) EXPECT_FALSE(matches(grammar, wrong)) << wrong;
}

TEST(Gbnf, Repetitions) {
  EXPECT_TRUE(matches(R"(root ::= "ab"* "."+ "?"?)", "abab..?"));
  EXPECT_TRUE(matches(R"(root ::= "ab"* "."+ "?"?)", "."));
  EXPECT_FALSE(matches(R"(root ::= "ab"* "."+ "?"?)", "ab"));
  for (const auto& [range, least, most] : {std::tuple("{2}", 2, 2), std::tuple("{2,}", 2, 9),
                                           std::tuple("{1,3}", 1, 3), std::tuple("{,3}", 0, 3)}) {
    for (int count = 0; count < 6; ++count) {
      const std::string text = std::string(static_cast<size_t>(count), 'a') + "!";
      EXPECT_EQ(matches(std::string("root ::= [a]") + range + " \"!\"", text),
                count >= least && count <= most)
          << range << count;
    }
  }
}

TEST(Gbnf, ClassesAndEscapes) {
  const std::string hex = R"(root ::= [0-9a-fA-F-] [^"\\\x00-\x1F] [\]\[] "\"\\\n\u00fc\x41" .)";
  EXPECT_TRUE(matches(hex, "-ü]\"\\\nüA\n"));
  EXPECT_TRUE(matches(hex, "F/[\"\\\nüAx"));
  EXPECT_FALSE(matches(hex, "g"));
  EXPECT_FALSE(matches(hex, "F\""));
  EXPECT_FALSE(matches(hex, "F\x1F"));
  EXPECT_TRUE(matches("root ::= [äöü-]{2}", "ö-"));
}

TEST(Gbnf, CommentsNamesAndLines) {
  const std::string grammar =
      "# what it is\nroot ::= first-part # the rest\n\n  second_Part2\nfirst-part ::= (\n "
      "\"a\"\n)\nsecond_Part2 ::=\n \"b\"\n";
  EXPECT_NE(message_of(grammar), "");  // a rule ends with its line
  EXPECT_TRUE(
      matches("# what\nroot ::= first-part second_Part2 # rest\nfirst-part ::= ( # open\n \"a\"\n)\n\r\n"
              "second_Part2 ::=\n \"#b\"",
              "a#b"));
}

// The grammar of JSON as llama.cpp ships it, in its rules.
constexpr const char* kJson = R"(
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws ::= | " " | "\n" [ \t]{0,20}
)";

TEST(Gbnf, RecursiveGrammars) {
  for (const char* right :
       {"{}", "{ \"a\":[1,2.5e-1, {\"b\":null}],\n  \"\\u00fc\": \"x\\\"\"} ", "{\"a\": [[[]]]}"}) {
    EXPECT_TRUE(matches(kJson, right)) << right;
  }
  for (const char* wrong : {"[]", "{\"a\"}", "{\"a\":1,}", "{\"a\":[}"})
    EXPECT_FALSE(matches(kJson, wrong)) << wrong;
  const std::string sums = "root ::= term ([-+*/] term)*\nterm ::= [0-9]+ | \"(\" root \")\"";
  EXPECT_TRUE(matches(sums, "1+(23*(4-5))/6"));
  EXPECT_FALSE(matches(sums, "1+(2"));
  EXPECT_TRUE(matches("root ::= root \"a\" | \"b\"", "baaa"));
}

TEST(Gbnf, ControlTokens) {
  auto matcher = compiler()->compile(GrammarKind::kGbnf, "root ::= <tool_call> \"x\"").value();
  EXPECT_FALSE(matcher.accept(TokenId{kCall}).value());
  EXPECT_TRUE(matcher.accept(TokenId{'x'}).value());
}

TEST(Gbnf, ErrorsNameTheLine) {
  EXPECT_EQ(message_of("root ::= this is (not"), "line 1: expected ), but the text ends");
  EXPECT_EQ(message_of("\nroot ::= a\n"), "line 2: the rule a is not defined");
  EXPECT_EQ(message_of("rot ::= \"a\""), "line 1: there is no rule named root");
  EXPECT_EQ(message_of("root ::= \"a\"\nroot ::= \"b\""), "line 2: the rule root is defined twice");
  EXPECT_EQ(message_of("root ::= [z-a]"), "line 1: a range of a character class ends before it begins");
  EXPECT_EQ(message_of("root ::= \"a\"{3,2}"), "line 1: a repetition ends before it begins");
  for (const char* wrong :
       {"", "root", "root ::=\n= \"a\"", "root ::= \"a", "root ::= [a", "root ::= [] ", "root ::= \"\\q\"",
        "root ::= \"a\"{", "root ::= <", "root ::= \"a\")", "root ::= \"\\xZ\"", "root ::= *"}) {
    EXPECT_NE(message_of(wrong), "") << wrong;
  }
  EXPECT_NE(error_of(GrammarKind::kGbnf, "root ::= root \"a\""), "");  // no text is ever whole
}

TEST(Gbnf, DeepAndLongGrammarsAreRefusedOrWork) {
  EXPECT_NE(message_of("root ::= " + std::string(60000, '(') + "\"a\"" + std::string(60000, ')')), "");
  std::string chain = "root ::= r0\n";
  for (int i = 0; i < 5000; ++i) chain += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + "\n";
  EXPECT_NE(message_of(chain + "r5000 ::= \"a\""), "");
  chain = "root ::= r0\n";
  for (int i = 0; i < 1500; ++i) chain += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + "\n";
  EXPECT_TRUE(matches(chain + "r1500 ::= \"a\"", "a"));
  std::string doubling = "root ::= d0\n";
  for (int i = 0; i < 60; ++i) {
    const std::string next = " d" + std::to_string(i + 1);
    doubling += "d" + std::to_string(i) + " ::=" + next + next + "\n";
  }
  error_of(GrammarKind::kGbnf, doubling + "d60 ::= \"a\"");
  error_of(GrammarKind::kGbnf, "root ::= ((((\"a\"{1000}){1000}){1000}){1000}){1000}");
  EXPECT_TRUE(matches("root ::= \"still\"", "still"));
}

}  // namespace
}  // namespace pagoda::text
