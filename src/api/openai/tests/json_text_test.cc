#include "api/openai/json_text.h"

#include <gtest/gtest.h>

namespace pagoda::openai {
namespace {

std::string message_of(std::string_view text) {
  const auto result = parse_json(text);
  if (result) return "accepted: " + dump_json(*result);
  EXPECT_EQ(result.error().kind, ErrorKind::kInvalidArgument);
  return result.error().message;
}

// CASES B053: everything that is not RFC 8259.
TEST(JsonText, RefusesOddities) {
  for (const char* text : {"",
                           " ",
                           "NaN",
                           R"({"a":NaN})",
                           R"({"a":Infinity})",
                           R"({"a":-Infinity})",
                           R"({"a":1e999})",
                           R"({"a":01})",
                           R"({"a":+1})",
                           R"({"a":.5})",
                           R"({"a":1.})",
                           R"({"a":1,})",
                           R"([1,])",
                           R"({"a":1 /* c */})",
                           "{'a':1}",
                           R"({"a":1}{"b":2})",
                           R"({"a":1} x)",
                           "{",
                           "[",
                           "\"a",
                           R"({"a")",
                           R"({"a":)",
                           R"({a:1})",
                           "tru",
                           "\"\x01\"",
                           R"("\ud800")",
                           R"("\udc00\ud800")",
                           R"("\x41")"}) {
    EXPECT_FALSE(parse_json(text)) << text;
  }
}

TEST(JsonText, AcceptsEveryKindOfValue) {
  const auto json = parse_json(
      R"( {"s":"a\u00e9\ud83d\ude00\n","n":[0,-1,1.5,1e3,18446744073709551615],"t":true,"z":null} )");
  ASSERT_TRUE(json);
  EXPECT_EQ(dump_json(*json),
            R"({"s":"aé😀\n","n":[0,-1,1.5,1000.0,18446744073709551615],"t":true,"z":null})");
}

TEST(JsonText, KeepsTheOrderOfKeys) {
  EXPECT_EQ(dump_json(*parse_json(R"({"z":1,"a":{"y":2,"b":3}})")), R"({"z":1,"a":{"y":2,"b":3}})");
}

TEST(JsonText, NamesTheByteOfAnError) {
  EXPECT_NE(message_of("{\"prompt\":\"\xff\xfe\"}").find("invalid UTF-8 at byte 11"), std::string::npos);
  EXPECT_NE(message_of(R"({"a": x})").find("at byte 6"), std::string::npos) << message_of(R"({"a": x})");
}

// CASES B050.
TEST(JsonText, RefusesWhatIsNotUtf8) {
  const std::string bom = std::string("\xEF\xBB\xBF") + R"({"a":1})";
  const std::string nul_after = std::string(R"({"a":1})") + '\0';
  const std::string utf16{"{\0\"\0a\0\"\0}\0", 10};
  for (const std::string& text :
       {std::string("\"\xed\xa0\x80\""), std::string("\"\xc0\xaf\""), std::string("\"\xf4\x90\x80\x80\""),
        std::string("\"\xe2\x82\""), std::string("\"\x80\""), bom, nul_after, utf16}) {
    EXPECT_FALSE(parse_json(text));
  }
  EXPECT_TRUE(parse_json("\"\xf4\x8f\xbf\xbf\xed\x9f\xbf\xee\x80\x80\xe0\xa0\x80\xc2\x80\""));
}

TEST(JsonText, RefusesDuplicateKeys) {
  EXPECT_NE(message_of(R"({"max_tokens":1,"b":{"c":1},"max_tokens":500})").find("'max_tokens' occurs twice"),
            std::string::npos);
  EXPECT_FALSE(parse_json(R"({"a":{"b":1,"b":1}})"));
  EXPECT_FALSE(parse_json(R"({"a":1,"\u0061":2})"));
  EXPECT_TRUE(parse_json(R"([{"a":1},{"a":2}])"));
}

// CASES B052: depth is checked without recursion, whatever it is.
TEST(JsonText, BoundsTheDepth) {
  for (const size_t depth : {129u, 1000u, 100000u, 1000000u}) {
    EXPECT_FALSE(parse_json(std::string(depth, '[')));
    EXPECT_FALSE(parse_json(std::string(depth, '[') + std::string(depth, ']')));
    std::string objects;
    for (size_t i = 0; i < depth; ++i) objects += "{\"a\":";
    EXPECT_FALSE(parse_json(objects));
  }
  EXPECT_TRUE(parse_json(std::string(128, '[') + std::string(128, ']')));
  EXPECT_TRUE(parse_json(R"(["[[[[\"[[[[\\"])"));
  std::string wide = "[";
  for (int i = 0; i < 1000; ++i) wide += "[],";
  EXPECT_TRUE(parse_json(wide + "[]]"));
}

TEST(JsonText, BoundsTheNumberOfValues) {
  std::string many = "[0";
  for (size_t i = 0; i < kMaxJsonValues; ++i) many += ",0";
  EXPECT_NE(message_of(many + "]").find("more than"), std::string::npos);
}

TEST(JsonText, WideObjectsTakeLinearTime) {
  std::string text = "{\"k\":0";
  for (int i = 0; i < 200000; ++i) text += ",\"" + std::to_string(i) + "\":1";
  const auto json = parse_json(text + "}");
  ASSERT_TRUE(json);
  EXPECT_EQ(json->size(), 200001u);
}

TEST(JsonText, DumpReplacesInvalidBytes) {
  EXPECT_EQ(dump_json(Json("a\xff"
                           "b")),
            "\"a\xEF\xBF\xBD"
            "b\"");
}

}  // namespace
}  // namespace pagoda::openai
