#include <gtest/gtest.h>

#include "api/openai/json_text.h"
#include "api/openai/response.h"

namespace pagoda::openai {
namespace {

ResponseOptions options() {
  ResponseOptions result;
  result.id = "chatcmpl-1";
  result.created = 7;
  result.model = "tiny";
  return result;
}

TEST(ChatBody, HasTheShapeOfTheReference) {
  auto builder = make_chat_builder(options());
  builder->add({.index = 0, .text = "hello", .ids = {TokenId{1}}, .finish = Finish::kStop});
  EXPECT_EQ(
      builder->body({3, 1, 0}),
      R"({"id":"chatcmpl-1","object":"chat.completion","created":7,"model":"tiny","choices":[{"index":0,)"
      R"("message":{"role":"assistant","content":"hello","refusal":null},"logprobs":null,)"
      R"("finish_reason":"stop",)"
      R"("stop_reason":null}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4,)"
      R"("prompt_tokens_details":{"cached_tokens":0}},"prompt_logprobs":null})");
}

// CASES B007: stopped at once.
TEST(ChatBody, EmptyContentIsAString) {
  auto builder = make_chat_builder(options());
  builder->add({.index = 0, .ids = {TokenId{1}}, .finish = Finish::kStop, .stop_reason = std::string("7")});
  const Json choice = (*parse_json(builder->body({3, 1, 0})))["choices"][0];
  EXPECT_EQ(choice["message"]["content"], "");
}

// CASES B014, B021: role first, one finish chunk last, constants the same.
TEST(ChatChunks, RoleContentFinish) {
  auto builder = make_chat_builder(options());
  const auto first = builder->chunks({.index = 0, .text = "hel", .ids = {TokenId{1}}}, {3, 1, 0});
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0], R"({"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"tiny",)"
                      R"("choices":[{"index":0,)"
                      R"("delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]})");
  EXPECT_EQ((*parse_json(first[1]))["choices"][0]["delta"], (Json{{"content", "hel"}}));
  const auto last = builder->chunks({.index = 0, .text = "lo", .finish = Finish::kLength}, {3, 2, 0});
  ASSERT_EQ(last.size(), 2u);
  EXPECT_EQ((*parse_json(last[0]))["choices"][0]["finish_reason"], nullptr);
  EXPECT_EQ(last[1], R"({"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"tiny",)"
                     R"("choices":[{"index":0,)"
                     R"("delta":{},"logprobs":null,"finish_reason":"length","stop_reason":null}]})");
}

// CASES B015: usage null in chunks, or the running numbers.
TEST(ChatChunks, Usage) {
  ResponseOptions with_usage = options();
  with_usage.include_usage = true;
  auto builder = make_chat_builder(with_usage);
  for (const std::string& chunk : builder->chunks({.index = 0, .text = "a"}, {3, 1, 0})) {
    EXPECT_EQ((*parse_json(chunk)).at("usage"), nullptr);
  }
  with_usage.continuous_usage_stats = true;
  builder = make_chat_builder(with_usage);
  for (const std::string& chunk : builder->chunks({.index = 0, .text = "a"}, {3, 1, 0})) {
    EXPECT_EQ((*parse_json(chunk)).at("usage")["total_tokens"], 4);
  }
}

// CASES B024: scores of held-back text are not lost.
TEST(ChatChunks, ScoresWithoutText) {
  ResponseOptions scored = options();
  scored.logprobs = 0;
  auto builder = make_chat_builder(scored);
  (void)builder->chunks(
      {.index = 0, .text = "a", .ids = {TokenId{1}}, .scores = {{{TokenId{1}, "a", -0.5}, 1, {}}}}, {});
  const auto last = builder->chunks({.index = 0,
                                     .ids = {TokenId{2}},
                                     .scores = {{{TokenId{2}, "S", -0.25}, 1, {}}},
                                     .finish = Finish::kStop},
                                    {});
  ASSERT_EQ(last.size(), 2u);
  EXPECT_EQ(dump_json((*parse_json(last[0]))["choices"][0]["logprobs"]),
            R"({"content":[{"token":"S","logprob":-0.25,"bytes":[83],"top_logprobs":[]}]})");
}

TEST(ChatChunks, EachChoiceHasItsRole) {
  ResponseOptions two = options();
  two.n = 2;
  auto builder = make_chat_builder(two);
  for (const int index : {1, 0}) {
    const auto chunks = builder->chunks({.index = index, .text = "x"}, {});
    ASSERT_EQ(chunks.size(), 2u);
    EXPECT_EQ((*parse_json(chunks[0]))["choices"][0]["index"], index);
  }
}

}  // namespace
}  // namespace pagoda::openai
