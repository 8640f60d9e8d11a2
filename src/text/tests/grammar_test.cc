#include "text/grammar.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/tests/grammar_walk.h"

namespace pagoda::text {
namespace {

TEST(Grammar, SchemasRegexesChoicesAndLarkSayWhatMayComeNext) {
  const std::string schema = R"({"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],)"
                             R"("additionalProperties":false})";
  EXPECT_TRUE(accepts(GrammarKind::kJsonSchema, schema, R"({"a":12})"));
  EXPECT_FALSE(accepts(GrammarKind::kJsonSchema, schema, R"({"a":"x"})"));
  EXPECT_FALSE(accepts(GrammarKind::kJsonSchema, schema, R"({"a":1)"));
  EXPECT_TRUE(accepts(GrammarKind::kRegex, R"(^\d{3}-[a-z/]+$)", "123-a/b"));
  EXPECT_FALSE(accepts(GrammarKind::kRegex, R"(\d{3})", "12"));
  EXPECT_TRUE(accepts(GrammarKind::kChoice, R"(["yes","n\"\n\u00fc"])", "n\"\n\u00fc"));
  EXPECT_FALSE(accepts(GrammarKind::kChoice, R"(["yes","no"])", "ye"));
  EXPECT_TRUE(accepts(GrammarKind::kLark, "start: \"a\" b\nb: \"(\" b \")\" | \"x\"", "a((x))"));
}

TEST(Grammar, CompleteMeansThatNothingCanFollow) {
  auto fixed = compiler()->compile(GrammarKind::kChoice, R"(["ab"])").value();
  EXPECT_TRUE(walk(fixed, "ab").complete);
  auto open = compiler()->compile(GrammarKind::kRegex, "a+").value();
  const Walk result = walk(open, "aa");
  EXPECT_TRUE(result.may_end && !result.complete);
}

TEST(Grammar, WhitespaceInJsonIsBounded) {
  const std::string object = R"({"type":"object"})";
  EXPECT_TRUE(accepts(GrammarKind::kJsonSchema, object, "{" + std::string(20, ' ') + "}"));
  EXPECT_FALSE(accepts(GrammarKind::kJsonSchema, object, "{" + std::string(21, ' ') + "}"));
  EXPECT_FALSE(accepts(GrammarKind::kJsonSchema, object, " {}"));
  const std::string nested = "start: %json {\"type\":\"object\"," + std::string(kJsonWhitespace) + "}";
  EXPECT_TRUE(accepts(GrammarKind::kLark, nested, "{" + std::string(20, '\n') + "}"));
  EXPECT_FALSE(accepts(GrammarKind::kLark, nested, "{" + std::string(21, '\n') + "}"));
}

TEST(Grammar, LarkNamesControlTokens) {
  for (const std::string name : {"<tool_call>", "<[257]>"}) {
    auto matcher = compiler()->compile(GrammarKind::kLark, "start: " + name + " \"x\"").value();
    std::vector<uint32_t> mask((kWidth + 31) / 32);
    ASSERT_TRUE(matcher.fill_mask(mask).has_value());
    EXPECT_EQ(mask[kCall / 32], 1u << (kCall % 32)) << name;
    EXPECT_EQ(mask['<' / 32] >> ('<' % 32) & 1, 0u);
    EXPECT_FALSE(matcher.accept(TokenId{kCall}).value());
    EXPECT_TRUE(matcher.accept(TokenId{'x'}).value());
  }
}

TEST(Grammar, ForksGoTheirOwnWays) {
  auto first = compiler()->compile(GrammarKind::kChoice, R"(["ab","ac"])").value();
  ASSERT_FALSE(first.accept(TokenId{'a'}).value());
  auto second = first.fork().value();
  EXPECT_TRUE(first.accept(TokenId{'b'}).value());
  EXPECT_TRUE(second.accept(TokenId{'c'}).value());
}

// CASES B100: each is an error of its own request.
TEST(Grammar, WrongTextIsAnErrorOfOneLine) {
  const std::vector<std::pair<GrammarKind, std::string>> wrong = {
      {GrammarKind::kRegex, "["},
      {GrammarKind::kRegex, "("},
      {GrammarKind::kRegex, "*"},
      {GrammarKind::kRegex, "\\"},
      {GrammarKind::kRegex, "^a\\"},
      {GrammarKind::kRegex, "(?<=x)*"},
      {GrammarKind::kJsonSchema, R"({"type":"object","properties":{"foo":"bar"}})"},
      {GrammarKind::kJsonSchema, R"({"type":"hiccup"})"},
      {GrammarKind::kJsonSchema, R"({"type":123})"},
      {GrammarKind::kJsonSchema, "123"},
      {GrammarKind::kJsonSchema, "null"},
      {GrammarKind::kJsonSchema, R"({"$ref":"#/nope"})"},
      {GrammarKind::kJsonSchema, R"({"$ref":"#"})"},
      {GrammarKind::kJsonSchema, R"({"$ref":"http://x/y"})"},
      {GrammarKind::kJsonSchema, R"({"enum":[]})"},
      {GrammarKind::kJsonSchema, R"({"type":"string","minLength":3,"maxLength":2})"},
      {GrammarKind::kJsonSchema, R"({"type":"integer","minimum":9007199254740993})"},
      {GrammarKind::kJsonSchema, R"({"items":{"exclusiveMaximum":-1e300}})"},
      {GrammarKind::kChoice, "[]"},
      {GrammarKind::kLark, "start: this is (not"},
      {GrammarKind::kLark, "other: \"a\""},
  };
  for (const auto& [kind, text] : wrong) {
    const std::string message = error_of(kind, text);
    EXPECT_FALSE(message.empty()) << text;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_LT(message.size(), 600u) << message;
  }
}

TEST(Grammar, ErrorsSayWhatAndWhere) {
  EXPECT_EQ(error_of(GrammarKind::kRegex, "^ab["), "unclosed character class (at character 4)");
  EXPECT_EQ(error_of(GrammarKind::kRegex, "\\"),
            "incomplete escape sequence, reached end of pattern prematurely (at character 1)");
  EXPECT_EQ(error_of(GrammarKind::kJsonSchema, R"({"maximum":9007199254740995})"),
            "maximum is 9007199254740995; bounds from -2^53 to 2^53 are exact");
  EXPECT_EQ(error_of(GrammarKind::kJsonSchema, R"({"type":"integer","maximum":9007199254740992})"), "");
  const std::string one_of = R"({"oneOf":[{"type":"integer"},{"type":"number"}]})";
  EXPECT_EQ(error_of(GrammarKind::kJsonSchema, one_of), "oneOf constraints are not supported.");
  EXPECT_EQ(error_of(GrammarKind::kRegex, "[^\\x00-\\x{10FFFF}]"), "nothing matches it");
}

// CASES B101: an error or a matcher, and the process lives.
TEST(Grammar, DeepAndExplosiveTextsDoNoHarm) {
  const auto repeat = [](const std::string& text, int count) {
    std::string all;
    for (int i = 0; i < count; ++i) all += text;
    return all;
  };
  EXPECT_NE(error_of(GrammarKind::kLark, "start: " + repeat("(", 60000) + "\"a\"" + repeat(")", 60000)), "");
  EXPECT_NE(error_of(GrammarKind::kRegex, repeat("(", 50000)), "");
  EXPECT_NE(
      error_of(GrammarKind::kJsonSchema, R"({"type":"string","pattern":")" + repeat("(", 50000) + "\"}"), "");
  EXPECT_NE(error_of(GrammarKind::kJsonSchema, repeat(R"({"allOf":[)", 2000) + "{}" + repeat("]}", 2000)),
            "");
  std::string chain;
  for (int i = 0; i < 5000; ++i) chain += "r" + std::to_string(i) + ": r" + std::to_string(i + 1) + "\n";
  error_of(GrammarKind::kLark, "start: r0\n" + chain + "r5000: \"a\"\n");
  error_of(GrammarKind::kRegex, "(a|b|c){1000}");
  error_of(GrammarKind::kRegex, "a{99999999}");
  error_of(GrammarKind::kJsonSchema, R"({"type":"array","minItems":1000000000})");
  std::string properties;
  for (int i = 0; i < 500; ++i) {
    properties += (i > 0 ? ",\"p" : "\"p") + std::to_string(i) + R"(":{"type":"integer"})";
  }
  const std::string wide =
      R"({"type":"object","additionalProperties":false,"properties":{)" + properties + "}}";
  EXPECT_TRUE(accepts(GrammarKind::kJsonSchema, wide, R"({"p3":1,"p499":2})"));
  std::string choices;
  for (int i = 0; i < 4096; ++i) choices += (i > 0 ? ",\"number " : "[\"number ") + std::to_string(i) + '"';
  EXPECT_TRUE(accepts(GrammarKind::kChoice, choices + "]", "number 4095"));
  for (const std::string number : {"9999991", "0.000001234567", "1e300"}) {
    EXPECT_NE(error_of(GrammarKind::kJsonSchema, R"({"type":"number","multipleOf":)" + number + "}"), "")
        << number;
  }
  const std::string coprime = R"({"allOf":[{"multipleOf":9973},{"multipleOf":9967}]})";
  EXPECT_NE(error_of(GrammarKind::kJsonSchema, coprime), "");
  EXPECT_TRUE(accepts(GrammarKind::kJsonSchema, R"({"type":"number","multipleOf":0.25})", "1.75"));
  EXPECT_TRUE(accepts(GrammarKind::kChoice, R"(["still"])", "still"));
}

}  // namespace
}  // namespace pagoda::text
