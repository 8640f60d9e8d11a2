#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/openai/request.h"
#include "api/openai/tests/request_fixture.h"

namespace pagoda::openai {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

std::string check(const std::string& field) {
  return verdict(parse_completion_request(completion_body(field), test_options()));
}

CompletionRequest parse(const std::string& field) {
  auto result = parse_completion_request(completion_body(field), test_options());
  EXPECT_TRUE(result) << field << ": " << result.error().message;
  return result ? *result : CompletionRequest{};
}

struct Case {
  const char* field;
  const char* verdict;
};

// CASES B036: integer edges.
TEST(CompletionRequest, IntegerEdges) {
  const Case cases[] = {
      {R"("max_tokens":-1)", "400 max_tokens"},
      {R"("max_tokens":-2)", "400 max_tokens"},
      {R"("max_tokens":0)", "ok"},
      {R"("max_tokens":1)", "ok"},
      {R"("max_tokens":2147483647)", "ok"},
      {R"("max_tokens":2147483648)", "ok"},
      {R"("max_tokens":4294967296)", "ok"},
      {R"("max_tokens":9223372036854775807)", "ok"},
      {R"("max_tokens":9223372036854775808)", "400 max_tokens"},
      {R"("max_tokens":1e18)", "ok"},
      {R"("max_tokens":1e19)", "400 max_tokens"},
      {R"("max_tokens":100.0)", "ok"},
      {R"("max_tokens":1.5)", "400 max_tokens"},
      {R"("max_tokens":"10")", "400 max_tokens"},
      {R"("max_tokens":true)", "400 max_tokens"},
      {R"("max_tokens":null)", "ok"},
      {R"("max_tokens":[])", "400 max_tokens"},
      {R"("seed":0)", "ok"},
      {R"("seed":-1)", "ok"},
      {R"("seed":9223372036854775807)", "ok"},
      {R"("seed":-9223372036854775808)", "ok"},
      {R"("seed":9223372036854775808)", "400 seed"},
      {R"("seed":18446744073709551616)", "400 seed"},
      {R"("seed":1000000000000000000000000000000)", "400 seed"},
      {R"("seed":1.5)", "400 seed"},
      {R"("seed":"1")", "400 seed"},
      {R"("seed":null)", "ok"},
      {R"("n":0)", "400 n"},
      {R"("n":-1)", "400 n"},
      {R"("n":2147483648)", "400 n"},
      {R"("n":8)", "ok"},
      {R"("n":9)", "400 n"},
      {R"("best_of":1)", "ok"},
      {R"("best_of":2)", "ok"},
      {R"("best_of":8)", "ok"},
      {R"("best_of":9)", "400 best_of"},
      {R"("best_of":2,"stream":true)", "400 best_of"},
      {R"("n":2,"best_of":2,"stream":true)", "ok"},
      {R"("n":3,"best_of":2)", "400 best_of"},
      {R"("n":2,"best_of":2)", "ok"},
      {R"("best_of":1000000)", "400 best_of"},
      {R"("min_tokens":-1)", "400 min_tokens"},
      {R"("truncate_prompt_tokens":0)", "400 truncate_prompt_tokens"},
      {R"("truncate_prompt_tokens":5)", "ok"},
      {R"("truncate_prompt_tokens":-1)", "ok"},
      {R"("truncate_prompt_tokens":-2)", "400 truncate_prompt_tokens"},
      {R"("priority":-3)", "ok"},
      {R"("priority":2147483648)", "400 priority"},
  };
  for (const Case& c : cases) EXPECT_EQ(check(c.field), c.verdict) << c.field;
  EXPECT_EQ(parse(R"("max_tokens":100.0)").common.max_tokens, 100);
  EXPECT_EQ(parse(R"("max_tokens":1e18)").common.max_tokens, 1000000000000000000);
  EXPECT_EQ(parse(R"("seed":9223372036854775807)").common.sampling.seed, INT64_MAX);
  EXPECT_EQ(parse(R"("seed":null)").common.sampling.seed, std::nullopt);
}

// CASES B043: sampling bounds; never clamped.
TEST(CompletionRequest, SamplingBounds) {
  const Case cases[] = {
      {R"("temperature":0)", "ok"},
      {R"("temperature":1e-6)", "ok"},
      {R"("temperature":2)", "ok"},
      {R"("temperature":-0.1)", "400 temperature"},
      {R"("temperature":2.1)", "400 temperature"},
      {R"("temperature":999999)", "400 temperature"},
      {R"("temperature":"1")", "400 temperature"},
      {R"("top_p":-0.1)", "400 top_p"},
      {R"("top_p":1.1)", "400 top_p"},
      {R"("top_p":0)", "400 top_p"},
      {R"("top_p":1e-9)", "ok"},
      {R"("top_p":1)", "ok"},
      {R"("top_k":-2)", "400 top_k"},
      {R"("top_k":1.5)", "400 top_k"},
      {R"("top_k":-1)", "ok"},
      {R"("top_k":0)", "ok"},
      {R"("top_k":1000000)", "ok"},
      {R"("min_p":-0.1)", "400 min_p"},
      {R"("min_p":1.1)", "400 min_p"},
      {R"("min_p":1)", "ok"},
      {R"("presence_penalty":-2.1)", "400 presence_penalty"},
      {R"("presence_penalty":2.1)", "400 presence_penalty"},
      {R"("presence_penalty":-2)", "ok"},
      {R"("frequency_penalty":2.1)", "400 frequency_penalty"},
      {R"("frequency_penalty":false)", "400 frequency_penalty"},
      {R"("repetition_penalty":0)", "400 repetition_penalty"},
      {R"("repetition_penalty":-1)", "400 repetition_penalty"},
      {R"("repetition_penalty":1.5)", "ok"},
      {R"("temperature":null,"top_p":null,"top_k":null,"stop":null,"logit_bias":null,"logprobs":null)", "ok"},
  };
  for (const Case& c : cases) EXPECT_EQ(check(c.field), c.verdict) << c.field;
  EXPECT_EQ(parse(R"("top_k":-1)").common.sampling.top_k, 0);
}

TEST(CompletionRequest, MessageNamesFieldValueAndLimit) {
  const auto result = parse_completion_request(completion_body(R"("temperature":2.5)"), test_options());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "temperature must be in [0, 2], got 2.5.");
}

TEST(CompletionRequest, DefaultsOfTheModelAreUsedWhereTheRequestIsSilent) {
  ParseOptions options = test_options();
  options.defaults = {.temperature = 0.6,
                      .top_p = 0.9,
                      .min_p = 0.1,
                      .repetition_penalty = 1.1,
                      .top_k = 20,
                      .max_tokens = 99};
  const auto silent = parse_completion_request(R"({"prompt":"hi","top_p":null})", options);
  ASSERT_TRUE(silent);
  const SamplingFields& sampling = silent->common.sampling;
  EXPECT_EQ(sampling.temperature, 0.6);
  EXPECT_EQ(sampling.top_p, 0.9);
  EXPECT_EQ(sampling.min_p, 0.1);
  EXPECT_EQ(sampling.repetition_penalty, 1.1);
  EXPECT_EQ(sampling.top_k, 20);
  EXPECT_EQ(silent->common.max_tokens, std::nullopt);
  EXPECT_EQ(silent->common.default_max_tokens, 16);
  const auto loud = parse_completion_request(R"({"prompt":"hi","temperature":0,"top_k":0})", options);
  ASSERT_TRUE(loud);
  EXPECT_EQ(loud->common.sampling.temperature, 0.0);
  EXPECT_EQ(loud->common.sampling.top_k, 0);
}

// CASES B010: odd stop values.
TEST(CompletionRequest, Stop) {
  const std::string long_stop = R"("stop":")" + std::string(100000, 'a') + '"';
  const Case cases[] = {
      {R"("stop":null)", "ok"},
      {R"("stop":[])", "ok"},
      {R"("stop":"")", "400 stop"},
      {R"("stop":[""])", "400 stop"},
      {R"("stop":["a",""])", "400 stop"},
      {R"("stop":["a","b","c","d","e"])", "ok"},
      {R"("stop":[1])", "400 stop"},
      {R"("stop":[null])", "400 stop"},
      {R"("stop":{"a":1})", "400 stop"},
      {R"("stop":"\u0000")", "ok"},
      {long_stop.c_str(), "400 stop"},
      {R"("stop":["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16"])", "ok"},
      {R"("stop":["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"])", "400 stop"},
  };
  for (const Case& c : cases) EXPECT_EQ(check(c.field), c.verdict) << c.field;
  EXPECT_THAT(parse(R"("stop":"x")").common.sampling.stop, ElementsAre("x"));
  EXPECT_THAT(parse(R"("stop":["x","y"])").common.sampling.stop, ElementsAre("x", "y"));
}

// CASES B045.
TEST(CompletionRequest, LogitBias) {
  const Case cases[] = {
      {R"("logit_bias":{})", "ok"},
      {R"("logit_bias":{"5":1})", "ok"},
      {R"("logit_bias":{"5":-100,"999":100})", "ok"},
      {R"("logit_bias":{"-1":1})", "400 logit_bias"},
      {R"("logit_bias":{"1000":1})", "400 logit_bias"},
      {R"("logit_bias":{"999999999":5})", "400 logit_bias"},
      {R"("logit_bias":{"4294967301":5})", "400 logit_bias"},
      {R"("logit_bias":{"99999999999999999999":5})", "400 logit_bias"},
      {R"("logit_bias":{"abc":1})", "400 logit_bias"},
      {R"("logit_bias":{"":1})", "400 logit_bias"},
      {R"("logit_bias":{"05":1})", "400 logit_bias"},
      {R"("logit_bias":{" 5":1})", "400 logit_bias"},
      {R"("logit_bias":{"1.5":1})", "400 logit_bias"},
      {R"("logit_bias":{"5":101})", "400 logit_bias"},
      {R"("logit_bias":{"5":"x"})", "400 logit_bias"},
      {R"("logit_bias":{"5":null})", "400 logit_bias"},
      {R"("logit_bias":[5])", "400 logit_bias"},
  };
  for (const Case& c : cases) EXPECT_EQ(check(c.field), c.verdict) << c.field;
}

// CASES B031.
TEST(CompletionRequest, LogprobsLimits) {
  const Case cases[] = {
      {R"("logprobs":0)", "ok"},
      {R"("logprobs":20)", "ok"},
      {R"("logprobs":21)", "400 logprobs"},
      {R"("logprobs":-1)", "400 logprobs"},
      {R"("logprobs":1000000000)", "400 logprobs"},
      {R"("logprobs":2.5)", "400 logprobs"},
      {R"("logprobs":"1")", "400 logprobs"},
      {R"("prompt_logprobs":-1)", "400 prompt_logprobs"},
      {R"("prompt_logprobs":20)", "ok"},
      {R"("prompt_logprobs":1,"stream":true)", "400 prompt_logprobs"},
  };
  for (const Case& c : cases) EXPECT_EQ(check(c.field), c.verdict) << c.field;
  EXPECT_EQ(parse(R"("logprobs":true)").common.logprobs, 1);
  EXPECT_EQ(parse(R"("logprobs":false)").common.logprobs, std::nullopt);
  EXPECT_EQ(parse(R"("logprobs":0)").common.logprobs, 0);
  ParseOptions options = test_options();
  options.max_logprobs = -1;
  EXPECT_EQ(parse_completion_request(completion_body(R"("logprobs":-1)"), options)->common.logprobs,
            kAllLogprobs);
}

// CASES B037, B046, B048 and API.md: the forms of prompt.
TEST(CompletionRequest, PromptForms) {
  const Case cases[] = {
      {R"({"prompt":"a"})", "ok"},
      {R"({"prompt":""})", "ok"},  // whether a BOS makes it a prompt is the tokenizer's business
      {R"({"prompt":["a","b"]})", "ok"},
      {R"({"prompt":[1,2]})", "ok"},
      {R"({"prompt":[[1,2],[3]]})", "ok"},
      {R"({"prompt":[0,999]})", "ok"},
      {R"({"prompt":[5.0]})", "ok"},
      {R"({"prompt":[]})", "400 prompt"},
      {R"({"prompt":[[]]})", "400 prompt"},
      {R"({"prompt":[[1],[]]})", "400 prompt"},
      {R"({})", "400 prompt"},
      {R"({"prompt":null})", "400 prompt"},
      {R"({"prompt":1})", "400 prompt"},
      {R"({"prompt":{}})", "400 prompt"},
      {R"({"prompt":[-1]})", "400 prompt"},
      {R"({"prompt":[[-1]]})", "400 prompt"},
      {R"({"prompt":[1000]})", "400 prompt"},
      {R"({"prompt":[2147483648]})", "400 prompt"},
      {R"({"prompt":[4294967301]})", "400 prompt"},
      {R"({"prompt":[9223372036854775808]})", "400 prompt"},
      {R"({"prompt":[1e30]})", "400 prompt"},
      {R"({"prompt":[1.5]})", "400 prompt"},
      {R"({"prompt":[1,"a"]})", "400 prompt"},
      {R"({"prompt":["a",1]})", "400 prompt"},
      {R"({"prompt":["a",[1]]})", "400 prompt"},
      {R"({"prompt":[[1],"a"]})", "400 prompt"},
      {R"({"prompt":[[[1]]]})", "400 prompt"},
      {R"({"prompt":[true]})", "400 prompt"},
      {R"({"prompt":[null]})", "400 prompt"},
      {R"({"prompt":["a","b","c","d","e"]})", "400 prompt"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(verdict(parse_completion_request(c.field, test_options())), c.verdict) << c.field;
  }
  const auto out_of_range = parse_completion_request(R"({"prompt":[4294967301]})", test_options());
  EXPECT_NE(out_of_range.error().message.find("out of vocabulary"), std::string::npos);
  const auto lists = parse_completion_request(R"({"prompt":[[1,2],[3]]})", test_options());
  ASSERT_EQ(lists->prompts.size(), 2u);
  EXPECT_THAT(std::get<1>(lists->prompts[0]), ElementsAre(TokenId{1}, TokenId{2}));
}

// A body of a few kilobytes must not become gigabytes because every prompt and choice has its copy.
TEST(CompletionRequest, FanOutIsBounded) {
  ParseOptions options = test_options();
  options.max_prompts = 1024;
  options.max_n = 128;
  const auto body = [](int prompts, int n) {
    std::string text = R"({"prompt":["a")";
    for (int i = 1; i < prompts; ++i) text += R"(,"a")";
    return text + fmt::format(R"(],"n":{},"stop":"{}"}})", n, std::string(4000, 's'));
  };
  EXPECT_EQ(verdict(parse_completion_request(body(1, 128), options)), "ok");
  EXPECT_EQ(verdict(parse_completion_request(body(1024, 1), options)), "ok");
  EXPECT_EQ(verdict(parse_completion_request(body(1024, 128), options)), "400 prompt");
}

TEST(CompletionRequest, TokenListsLoseRepetitions) {
  EXPECT_THAT(parse(R"("allowed_token_ids":[3,1,3,1])").common.sampling.allowed_token_ids,
              ElementsAre(TokenId{1}, TokenId{3}));
}

TEST(CompletionRequest, OtherFields) {
  const Case cases[] = {
      {R"("model":"tiny")", "ok"},
      {R"("model":"alias")", "ok"},
      {R"("model":null)", "ok"},
      {R"("model":"nope")", "404 model"},
      {R"("model":1)", "400 model"},
      {R"("stream":true,"stream_options":{"include_usage":true})", "ok"},
      {R"("stream":true,"stream_options":{"include_usage":1})", "400 stream_options.include_usage"},
      {R"("stream_options":{"include_usage":true})", "400 stream_options"},
      {R"("stream":1)", "400 stream"},
      {R"("allowed_token_ids":[])", "400 allowed_token_ids"},
      {R"("allowed_token_ids":[1,1000])", "400 allowed_token_ids"},
      {R"("stop_token_ids":[2])", "ok"},
      {R"("stop_token_ids":[-1])", "400 stop_token_ids"},
      {R"("bad_words":["a"])", "ok"},
      {R"("bad_words":"a")", "400 bad_words"},
      {R"("bad_words":[""])", "400 bad_words"},
      {R"("timeout":0)", "400 timeout"},
      {R"("timeout":0.5)", "ok"},
      {R"("timeout":1e9)", "400 timeout"},
      {R"("request_id":"abc-1")", "ok"},
      {R"("request_id":"a\nb")", "400 request_id"},
      {R"("request_id":"")", "400 request_id"},
      {R"("cache_salt":"")", "400 cache_salt"},
      {R"("suffix":"x")", "ok"},
      {R"("suffix":5)", "400 suffix"},
      {R"("suffix":"x","echo":true)", "400 echo"},
      {R"("suffix":"x","truncate_prompt_tokens":5)", "400 truncate_prompt_tokens"},
      {R"("suffix":"x","stop_at_suffix":false)", "ok"},
      {R"("suffix":"x","stop_at_suffix":0)", "400 stop_at_suffix"},
      {R"("suffix":"")", "ok"},
      {R"("suffix":null)", "ok"},
      {R"("tools":[])", "ok"},
      {R"("response_format":{"type":"text"})", "ok"},
      {R"("response_format":{"type":"json_object"})", "ok"},
      {R"("response_format":{"type":"json_schema","json_schema":{}})", "400 response_format"},
      {R"("response_format":{"type":"json_schema"})", "400 response_format"},
      {R"("response_format":{"type":"json_object","schema":123})", "400 response_format"},
      {R"("response_format":{"type":"json_schema","json_schema":{"schema":{"const":1},"strict":true}})",
       "ok"},
      {R"("response_format":{"type":"foo"})", "400 response_format"},
      {R"("response_format":"text")", "400 response_format"},
      {R"("guided_json":{"type":"object"})", "ok"},
      {R"("guided_json":{})", "ok"},  // an empty schema is a schema
      {R"("json_schema":{"type":"object"},"grammar":"")", "ok"},
      {R"("json_schema":5)", "400 json_schema"},
      {R"("grammar":5)", "400 grammar"},
      {R"("grammar":"root ::= \"a\"","json_schema":{})", "400 grammar"},
      {R"("structured_outputs":{})", "ok"},
      {R"("structured_outputs":{"regex":"a"})", "ok"},
      {R"("structured_outputs":{"regex":1})", "400 structured_outputs.regex"},
      {R"("structured_outputs":{"choice":[]})", "400 structured_outputs.choice"},
      {R"("structured_outputs":{"regex":"a","choice":["b"]})", "400 structured_outputs.choice"},
      {R"("response_format":{"type":"json_object"},"guided_regex":"a")", "400 guided_regex"},
      {R"("structured_outputs":null)", "ok"},
      {R"("structured_outputs":{"json_object":1})", "400 structured_outputs.json_object"},
      {R"("structured_outputs":{"structural_tag":"x"})", "400 structured_outputs.structural_tag"},
      {R"("response_format":{"type":"json_schema","json_schema":{"schema":{},"strict":"yes"}})",
       "400 response_format.json_schema.strict"},
      {R"("response_format":{"type":"json_schema","json_schema":{"schema":{},"name":5}})",
       "400 response_format.json_schema.name"},
  };
  for (const Case& c : cases) EXPECT_EQ(check(c.field), c.verdict) << c.field;
  EXPECT_EQ(parse(R"("timeout":0.5)").common.timeout, std::chrono::milliseconds(500));
  EXPECT_EQ(parse(R"("timeout":1e-9)").common.timeout, std::chrono::milliseconds(1));
}

TEST(CompletionRequest, UnknownFieldsAreReportedOrRefused) {
  EXPECT_THAT(parse(R"("foo":1,"bar":null,"max_tokens":3)").common.unknown_fields, ElementsAre("foo", "bar"));
  EXPECT_THAT(parse(R"("structured_outputs":{"foo":1},"stream":true,"stream_options":{"bar":1},)"
                    R"("response_format":{"type":"text","zap":1})")
                  .common.unknown_fields,
              UnorderedElementsAre("structured_outputs.foo", "stream_options.bar", "response_format.zap"));
  ParseOptions strict = test_options();
  strict.strict = true;
  const auto result = parse_completion_request(completion_body(R"("foo":1)"), strict);
  EXPECT_EQ(verdict(result), "400 foo");
  EXPECT_EQ(verdict(parse_completion_request(completion_body(R"("user":"u","metadata":null)"), strict)),
            "400 metadata");
}

TEST(CompletionRequest, BodyMustBeAnObject) {
  for (const char* body : {"[]", "\"x\"", "1", "null", "true"}) {
    EXPECT_EQ(verdict(parse_completion_request(body, test_options())), "400 ") << body;
  }
  std::string wide = R"({"prompt":"a")";
  for (int i = 0; i < 300; ++i) wide += fmt::format(R"(,"f{}":1)", i);
  EXPECT_EQ(verdict(parse_completion_request(wide + "}", test_options())), "400 ");
}

}  // namespace
}  // namespace pagoda::openai
