#include <gtest/gtest.h>

#include "api/openai/infill_request.h"
#include "api/openai/infill_response.h"
#include "api/openai/json_text.h"
#include "api/openai/tests/request_fixture.h"

namespace pagoda::openai {
namespace {

Result<InfillRequest> parse(const std::string& fields) {
  return parse_infill_request(R"({"input_prefix":"a","input_suffix":"b")" + fields + "}", test_options());
}

TEST(InfillRequest, fields) {
  const auto request = parse(
      R"(,"prompt":"c","n_predict":7,"repeat_penalty":1.5,"seed":-1,)"
      R"("top_k":40,"stop":[],"cache_prompt":true,)"
      R"("samplers":["top_k"],"t_max_predict_ms":5,"id_slot":0,"n_indent":2,"response_fields":["content"],)"
      R"("input_extra":[{"filename":"x.py","text":"1"},{"text":"2"},{"name":"y","text":""}])");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->prefix, "ac");
  EXPECT_EQ(request->suffix, "b");
  EXPECT_EQ(request->common.max_tokens, 7);
  EXPECT_EQ(request->common.sampling.repetition_penalty, 1.5);
  EXPECT_EQ(request->common.sampling.top_k, 40);
  EXPECT_FALSE(request->common.sampling.seed);
  EXPECT_TRUE(request->stop_at_suffix);
  ASSERT_EQ(request->files.size(), 3u);
  EXPECT_EQ(request->files[0].name, "x.py");
  EXPECT_EQ(request->files[1].name, "");
  EXPECT_EQ(request->files[2].name, "y");
  EXPECT_TRUE(request->common.unknown_fields.empty()) << request->common.unknown_fields.front();
}

TEST(InfillRequest, constraints_of_llama_server) {
  EXPECT_EQ(parse(R"(,"grammar":"root ::= \"a\"")")->common.grammar->kind, OutputGrammar::Kind::kGbnf);
  EXPECT_EQ(parse(R"(,"json_schema":{"type":"object"})")->common.grammar->kind,
            OutputGrammar::Kind::kJsonSchema);
  EXPECT_FALSE(parse(R"(,"grammar":"")")->common.grammar);
}

TEST(InfillRequest, no_limit) {
  EXPECT_FALSE(parse("")->common.max_tokens);
  EXPECT_FALSE(parse(R"(,"n_predict":-1)")->common.max_tokens);
  EXPECT_EQ(parse(R"(,"n_predict":0)")->common.max_tokens, 0);
  EXPECT_EQ(parse(R"(,"max_tokens":3)")->common.max_tokens, 3);
  EXPECT_EQ(parse(R"(,"max_tokens":3,"n_predict":4)")->common.max_tokens, 4);
  EXPECT_FALSE(parse(R"(,"max_tokens":3,"n_predict":-1)")->common.max_tokens);
  EXPECT_FALSE(parse(R"(,"seed":4294967295)")->common.sampling.seed);
  EXPECT_EQ(parse(R"(,"seed":5)")->common.sampling.seed, 5);
}

TEST(InfillRequest, wrong_values_name_their_field) {
  const std::pair<const char*, const char*> cases[] = {
      {R"(,"n_predict":-3)", "400 n_predict"},
      {R"(,"n_predict":"5")", "400 n_predict"},
      {R"(,"max_tokens":-3)", "400 max_tokens"},
      {R"(,"n":2)", "400 n"},
      {R"(,"repeat_penalty":0)", "400 repeat_penalty"},
      {R"(,"temperature":3)", "400 temperature"},
      {R"(,"input_extra":{})", "400 input_extra"},
      {R"(,"input_extra":["x"])", "400 input_extra"},
      {R"(,"input_extra":[{"filename":"x"}])", "400 input_extra"},
      {R"(,"input_extra":[{"text":5}])", "400 input_extra"},
      {R"(,"input_extra":[{"text":"","filename":5}])", "400 input_extra"},
      {R"(,"prompt":["x"])", "400 prompt"},
      {R"(,"prompt_logprobs":1)", "400 prompt_logprobs"},
      {R"(,"truncate_prompt_tokens":5)", "400 truncate_prompt_tokens"},
      {R"(,"stop_at_suffix":"no")", "400 stop_at_suffix"},
      {R"(,"response_fields":"content")", "400 response_fields"},
      {R"(,"response_fields":[1])", "400 response_fields"},
      {R"(,"model":"nope")", "404 model"},
  };
  for (const auto& [fields, expected] : cases) EXPECT_EQ(verdict(parse(fields)), expected) << fields;
  EXPECT_EQ(verdict(parse_infill_request(R"({"input_suffix":""})", test_options())), "400 input_prefix");
  EXPECT_EQ(verdict(parse_infill_request(R"({"input_prefix":""})", test_options())), "400 input_suffix");
  EXPECT_EQ(verdict(parse_infill_request(R"({"input_prefix":"","input_suffix":5})", test_options())),
            "400 input_suffix");
  EXPECT_EQ(verdict(parse_infill_request(R"({"input_prefix":"","input_suffix":""})", test_options())), "ok");
}

class InfillResponse : public testing::Test {
 protected:
  std::unique_ptr<ResponseBuilder> builder(std::vector<std::string> fields = {}) {
    auto result = make_infill_builder({"m", true, std::move(fields)}, clock_);
    clock_.advance(std::chrono::milliseconds(200));
    PromptInfo info;
    info.ids = {TokenId{1}, TokenId{2}, TokenId{3}, TokenId{4}};
    info.truncated = true;
    result->set_prompt(0, info);
    clock_.advance(std::chrono::milliseconds(500));
    return result;
  }
  static ChoiceDelta delta(const std::string& text, Finish finish = Finish::kNone) {
    ChoiceDelta result;
    result.text = text;
    result.ids = {TokenId{9}};
    result.finish = finish;
    return result;
  }

  ManualClock clock_;
  const UsageCounts usage_{4, 2, 1};
};

TEST_F(InfillResponse, whole) {
  const auto whole = builder();
  whole->add(delta("x\n"));
  ChoiceDelta last = delta("y", Finish::kStop);
  last.stop_reason = "def ";
  whole->add(last);
  const Json body = Json::parse(whole->body(usage_));
  EXPECT_EQ(body["content"], "x\ny");
  EXPECT_EQ(body["stop"], true);
  EXPECT_EQ(body["stop_type"], "word");
  EXPECT_EQ(body["stopping_word"], "def ");
  EXPECT_EQ(body["tokens"], Json::array({9, 9}));
  EXPECT_EQ(body["tokens_predicted"], 2);
  EXPECT_EQ(body["tokens_evaluated"], 4);
  EXPECT_EQ(body["tokens_cached"], 1);
  EXPECT_EQ(body["truncated"], true);
  EXPECT_EQ(body["has_new_line"], true);
  EXPECT_EQ(body["model"], "m");
  EXPECT_NEAR(body["timings"]["prompt_ms"].get<double>(), 200.0, 1e-6);
  EXPECT_NEAR(body["timings"]["predicted_ms"].get<double>(), 500.0, 1e-6);
  EXPECT_NEAR(body["timings"]["predicted_per_second"].get<double>(), 4.0, 1e-6);
  EXPECT_EQ(body["timings"]["prompt_n"], 3);
}

TEST_F(InfillResponse, why_it_stopped) {
  for (const auto& [finish, type] : {std::pair(Finish::kStop, "eos"), std::pair(Finish::kLength, "limit")}) {
    const auto whole = builder();
    whole->add(delta("", finish));
    EXPECT_EQ(Json::parse(whole->body(usage_))["stop_type"], type);
  }
}

TEST_F(InfillResponse, wanted_fields) {
  const auto whole = builder({"content", "timings/prompt_n", "nope", "content/x", "", "timings/"});
  whole->add(delta("x", Finish::kStop));
  EXPECT_EQ(whole->body(usage_), R"({"content":"x","timings/prompt_n":3})");
}

TEST_F(InfillResponse, stream) {
  const auto stream = builder();
  const auto first = stream->events(delta("x\n"), {4, 1, 1});
  ASSERT_EQ(first.size(), 1u);
  const Json event = Json::parse(first[0].data);
  EXPECT_EQ(event["content"], "x\n");
  EXPECT_EQ(event["stop"], false);
  EXPECT_EQ(event["tokens"], Json::array({9}));
  EXPECT_TRUE(stream->events(delta("", Finish::kLength), usage_).empty());
  const auto last = stream->last_events(usage_);
  ASSERT_EQ(last.size(), 1u);
  const Json end = Json::parse(last[0].data);
  EXPECT_EQ(end["content"], "");
  EXPECT_EQ(end["stop"], true);
  EXPECT_EQ(end["stop_type"], "limit");
  EXPECT_EQ(end["has_new_line"], true);
  EXPECT_EQ(end["tokens"], Json::array());
}

}  // namespace
}  // namespace pagoda::openai
