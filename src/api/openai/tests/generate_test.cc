#include <gtest/gtest.h>

#include "api/openai/generate_request.h"
#include "api/openai/tests/request_fixture.h"

namespace pagoda::openai {
namespace {

std::string check(const std::string& field) {
  return verdict(parse_generate_request(completion_body(field), test_options()));
}

TEST(GenerateRequest, fields) {
  const auto request =
      parse_generate_request(R"({"prompt":"hi","max_tokens":5,"temperature":0,"top_p":0.5})", test_options());
  ASSERT_TRUE(request);
  EXPECT_EQ(request->prompt, "hi");
  EXPECT_EQ(request->common.max_tokens, 5);
  EXPECT_EQ(request->common.sampling.temperature, 0.0);
  EXPECT_EQ(parse_generate_request(R"({"prompt":"hi"})", test_options())->common.default_max_tokens, 16);
}

TEST(GenerateRequest, wrong_values_name_their_field) {
  EXPECT_EQ(check(R"("max_tokens":-1)"), "400 max_tokens");
  EXPECT_EQ(check(R"("n":2)"), "400 n");
  EXPECT_EQ(check(R"("top_p":2)"), "400 top_p");
  EXPECT_EQ(check(R"("prompt_logprobs":1)"), "400 prompt_logprobs");
  EXPECT_EQ(check(R"("return_token_ids":true)"), "400 return_token_ids");
  EXPECT_EQ(verdict(parse_generate_request("{}", test_options())), "400 prompt");
  EXPECT_EQ(verdict(parse_generate_request(R"({"prompt":["a"]})", test_options())), "400 prompt");
}

TEST(GenerateResponse, whole_and_stream) {
  ChoiceDelta delta;
  delta.text = "a";
  ChoiceDelta end;
  end.text = "b";
  end.finish = Finish::kLength;
  const auto whole = make_generate_builder();
  whole->add(delta);
  whole->add(end);
  const std::string usage = R"("usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,)"
                            R"("prompt_tokens_details":{"cached_tokens":0}}})";
  EXPECT_EQ(whole->body({1, 2, 0}), R"({"text":"ab","finish_reason":"length",)" + usage);
  const auto stream = make_generate_builder();
  EXPECT_EQ(stream->events(delta, {})[0].data, R"({"text":"a"})");
  EXPECT_EQ(stream->events(end, {})[0].data, R"({"text":"b"})");
  const auto last = stream->last_events({1, 2, 0});
  ASSERT_EQ(last.size(), 2u);
  EXPECT_EQ(last[0].data, R"({"text":"","finish_reason":"length",)" + usage);
  EXPECT_EQ(last[1].data, "[DONE]");
}

}  // namespace
}  // namespace pagoda::openai
