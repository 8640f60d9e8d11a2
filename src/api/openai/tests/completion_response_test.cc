#include <gtest/gtest.h>

#include "api/openai/json_text.h"
#include "api/openai/response.h"

namespace pagoda::openai {
namespace {

ScoredToken scored(int id, const std::string& bytes, double logprob) {
  return {{TokenId{id}, bytes, logprob},
          1,
          {{TokenId{id}, bytes, logprob}, {TokenId{id + 100}, bytes + "x", logprob - 1}}};
}

ResponseOptions options() {
  ResponseOptions result;
  result.id = "cmpl-1";
  result.created = 7;
  result.model = "tiny";
  return result;
}

TEST(CompletionBody, HasTheShapeOfTheReference) {
  auto builder = make_completion_builder(options());
  builder->set_prompt(0, {"P", {TokenId{5}}, {}});
  builder->add({.index = 0, .text = "a", .ids = {TokenId{1}}});
  builder->add({.index = 0,
                .text = "b",
                .ids = {TokenId{2}},
                .finish = Finish::kStop,
                .stop_reason = std::string("X")});
  EXPECT_EQ(builder->body({3, 2, 1}),
            R"({"id":"cmpl-1","object":"text_completion","created":7,"model":"tiny","choices":[{"index":0,)"
            R"("text":"ab",)"
            R"("logprobs":null,"finish_reason":"stop","stop_reason":"X","prompt_logprobs":null}],)"
            R"("usage":{"prompt_tokens":3,)"
            R"("completion_tokens":2,"total_tokens":5,"prompt_tokens_details":{"cached_tokens":1}}})");
}

// CASES B023.
TEST(CompletionBody, ChoicesOfSeveralPromptsKeepTheirOrder) {
  ResponseOptions several = options();
  several.n = 2;
  several.num_prompts = 2;
  several.echo = true;
  auto builder = make_completion_builder(several);
  builder->set_prompt(1, {"P1", {}, {}});
  builder->set_prompt(0, {"P0", {}, {}});
  for (const int index : {3, 1, 0, 2}) {
    builder->add({.index = index, .text = std::to_string(index), .finish = Finish::kLength});
  }
  const Json body = *parse_json(builder->body({}));
  ASSERT_EQ(body["choices"].size(), 4u);
  const char* texts[] = {"P00", "P01", "P12", "P13"};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(body["choices"][i]["index"], i);
    EXPECT_EQ(body["choices"][i]["text"], texts[i]);
    EXPECT_EQ(body["choices"][i]["finish_reason"], "length");
  }
}

// CASES B028: prompt tokens + generated tokens, the first without a score.
TEST(CompletionBody, EchoWithLogprobs) {
  ResponseOptions echo = options();
  echo.echo = true;
  echo.logprobs = 2;
  auto builder = make_completion_builder(echo);
  builder->set_prompt(0, {"hi you", {TokenId{1}, TokenId{2}}, {scored(1, "hi", 0), scored(2, " you", -2)}});
  builder->add({.index = 0,
                .text = "!",
                .ids = {TokenId{3}},
                .scores = {scored(3, "!", -3)},
                .finish = Finish::kLength});
  const Json choice = (*parse_json(builder->body({})))["choices"][0];
  EXPECT_EQ(choice["text"], "hi you!");
  EXPECT_EQ(dump_json(choice["logprobs"]),
            R"({"tokens":["hi"," you","!"],"token_logprobs":[null,-2.0,-3.0],"top_logprobs":[null,)"
            R"({" you":-2.0," youx":-3.0},)"
            R"({"!":-3.0,"!x":-4.0}],"text_offset":[0,2,6]})");
}

// CASES B029: echo with max_tokens 0 arrives as a delta without tokens.
TEST(CompletionBody, EchoWithoutNewTokens) {
  ResponseOptions echo = options();
  echo.echo = true;
  auto builder = make_completion_builder(echo);
  builder->set_prompt(0, {"yes", {TokenId{1}}, {}});
  builder->add({.index = 0, .finish = Finish::kLength});
  const Json choice = (*parse_json(builder->body({1, 0, 0})))["choices"][0];
  EXPECT_EQ(choice["text"], "yes");
  EXPECT_EQ(choice["finish_reason"], "length");
}

TEST(CompletionChunks, CarryEachDelta) {
  ResponseOptions stream = options();
  stream.echo = true;
  stream.include_usage = true;
  stream.return_token_ids = true;
  auto builder = make_completion_builder(stream);
  builder->set_prompt(0, {"P", {TokenId{9}}, {}});
  const auto first = builder->chunks({.index = 0, .text = "a", .ids = {TokenId{1}}}, {1, 1, 0});
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0],
            R"({"id":"cmpl-1","object":"text_completion","created":7,"model":"tiny","choices":[{"index":0,)"
            R"("text":"Pa",)"
            R"("logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":[9],)"
            R"("token_ids":[1]}],"usage":null})");
  const auto last = builder->chunks(
      {.index = 0, .text = "", .finish = Finish::kStop, .stop_reason = TokenId{4}}, {1, 2, 0});
  ASSERT_EQ(last.size(), 1u);
  const Json choice = (*parse_json(last[0]))["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_EQ(choice["stop_reason"], 4);
  EXPECT_FALSE(choice.contains("prompt_token_ids"));
  const Json usage = *parse_json(builder->usage_chunk({1, 2, 0}));
  EXPECT_EQ(usage["choices"].size(), 0u);
  EXPECT_EQ(usage["usage"]["total_tokens"], 3);
}

TEST(ErrorJson, HasFourFields) {
  EXPECT_EQ(error_json({"bad \xff", "invalid_request_error", "n", ""}),
            "{\"error\":{\"message\":\"bad "
            "\xEF\xBF\xBD\",\"type\":\"invalid_request_error\",\"param\":\"n\",\"code\":null}}");
}

TEST(ModelJson, SaysWhatTheModelIs) {
  const Json list = *parse_json(model_list_json({{"m", 3, 4096, "GGUF Q4_K"}}));
  EXPECT_EQ(list["object"], "list");
  EXPECT_EQ(list["data"][0]["id"], "m");
  EXPECT_EQ(list["data"][0]["max_model_len"], 4096);
  EXPECT_EQ(list["data"][0]["owned_by"], "pagoda");
  EXPECT_EQ(list["data"][0]["quantization"], "GGUF Q4_K");
}

}  // namespace
}  // namespace pagoda::openai
