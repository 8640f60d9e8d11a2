#include "api/openai/batch_line.h"

#include <gtest/gtest.h>

#include "api/openai/json_text.h"

namespace pagoda::openai {
namespace {

TEST(BatchLineTest, ReadsARequest) {
  const BatchLine line = parse_batch_line(
      R"({"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":"x","top_p":0.1}})");
  ASSERT_FALSE(line.error.has_value());
  EXPECT_EQ(line.custom_id, "a");
  EXPECT_EQ(line.url, "/v1/completions");
  EXPECT_EQ(line.body, R"({"prompt":"x","top_p":0.1})");
}

TEST(BatchLineTest, NamesTheFieldThatIsWrong) {
  const auto param_of = [](const std::string& text) {
    const BatchLine line = parse_batch_line(text);
    return line.error ? line.error->param : "none";
  };
  const std::string rest = R"(,"method":"POST","url":"/v1/x","body":{}})";
  EXPECT_EQ(param_of(R"({"custom_id":"a")" + rest), "none");
  EXPECT_EQ(param_of(R"({"custom_id":1)" + rest), "custom_id");
  EXPECT_EQ(param_of(R"({"custom_id":"")" + rest), "custom_id");
  EXPECT_EQ(param_of(R"({"custom_id":")" + std::string(513, 'x') + "\"" + rest), "custom_id");
  EXPECT_EQ(param_of(R"({"custom_id":"a","url":"/v1/x","body":{}})"), "method");
  EXPECT_EQ(param_of(R"({"custom_id":"a","method":"GET","url":"/v1/x","body":{}})"), "method");
  EXPECT_EQ(param_of(R"({"custom_id":"a","method":"POST","body":{}})"), "url");
  EXPECT_EQ(param_of(R"({"custom_id":"a","method":"POST","url":7,"body":{}})"), "url");
  EXPECT_EQ(param_of(R"({"custom_id":"a","method":"POST","url":"/v1/x"})"), "body");
  EXPECT_EQ(param_of(R"({"custom_id":"a","method":"POST","url":"/v1/x","body":[]})"), "body");
  EXPECT_EQ(param_of(R"({"custom_id":"a","method":"POST","url":"/v1/x","body":{"stream":true}})"),
            "body.stream");
  for (const char* text : {"", "x", "[]", "\"a\"", "{\"custom_id\":", "{\"a\":1,\"a\":2}", "\xff"}) {
    EXPECT_TRUE(parse_batch_line(text).error.has_value()) << text;
  }
}

TEST(BatchLineTest, AnswersAndFailuresAreReadBack) {
  const std::string answer = batch_answer_line(
      {.id = "b", .custom_id = "a", .request_id = "r", .status = 200, .body = R"({"x":1})"});
  EXPECT_EQ(answer,
            R"({"id":"b","custom_id":"a","response":{"status_code":200,"request_id":"r","body":{"x":1}},)"
            R"("error":null})");
  auto line = parse_answered_line(answer);
  ASSERT_TRUE(line.has_value());
  EXPECT_TRUE(line->ok && line->custom_id == "a" && line->line == 0);
  line = parse_answered_line(
      batch_answer_line({.id = "", .custom_id = "a", .request_id = "", .status = 400, .body = "no JSON"}));
  ASSERT_TRUE(line.has_value());
  EXPECT_FALSE(line->ok);
  line = parse_answered_line(batch_failure_line(
      {.id = "b", .custom_id = "", .line = 7, .code = "c", .message = "two\nlines", .param = ""}));
  ASSERT_TRUE(line.has_value());
  EXPECT_EQ(line->line, 7);
  for (const char* text :
       {"", "{}", "[]", R"({"custom_id":"a"})", R"({"custom_id":"a","error":{"line":0}})",
        R"({"custom_id":"a","method":"POST","url":"/v1/x","body":{}})", R"({"custom_id":"a","resp)"}) {
    EXPECT_FALSE(parse_answered_line(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace pagoda::openai
