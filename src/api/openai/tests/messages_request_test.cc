#include "api/openai/messages_request.h"

#include <gtest/gtest.h>

#include "api/openai/tests/request_fixture.h"

namespace pagoda::openai {
namespace {

Result<MessagesRequest> parse(const std::string& body, const ParseOptions& options = test_options()) {
  return parse_messages_request(body, options);
}
// A body with one more field.
Result<MessagesRequest> with(const std::string& field) {
  return parse(R"({"max_tokens":2000,"messages":[{"role":"user","content":"hi"}],)" + field + "}");
}
Result<MessagesRequest> turns(const std::string& list, const std::string& more = "") {
  return parse(R"({"max_tokens":5,"messages":)" + list + more + "}");
}

Json context(const Result<MessagesRequest>& request) {
  if (!request) return request.error().message;
  return *parse_json(request->chat.context_json);
}

TEST(MessagesRequest, TurnsAndSystem) {
  const Json expected = *parse_json(
      R"([{"role":"system","content":"a\nb"},{"role":"user","content":"x\ny"},
          {"role":"assistant","content":"z"},
          {"role":"user","content":"w"}])");
  EXPECT_EQ(
      context(turns(R"([{"role":"user","content":"x"},{"role":"user","content":[{"type":"text","text":"y",
                              "cache_control":{"type":"ephemeral"}}]},
                              {"role":"assistant","content":[{"type":"text","text":"z"}]},
                              {"role":"user","content":"w"}])",
                    R"(,"system":[{"type":"text","text":"a"},{"type":"text","text":"b"}])"))["messages"],
      expected);
  EXPECT_EQ(
      context(turns(R"([{"role":"user","content":"x"}])", R"(,"system":"a")"))["messages"][0]["content"],
      "a");
}

TEST(MessagesRequest, ToolsAndThoughts) {
  const Json list = context(turns(R"([{"role":"user","content":"hi"},
      {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},
        {"type":"redacted_thinking","data":"xx"},{"type":"text","text":"I look."},
        {"type":"tool_use","id":"t1","name":"look","input":{"x":1}},
        {"type":"tool_use","id":"t2","name":"see","input":{}}]},
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"t2","content":"two"},
        {"type":"tool_result","tool_use_id":"t1","is_error":true,
         "content":[{"type":"text","text":"o"},{"type":"text","text":"ne"}]},
        {"type":"text","text":"go on"}]}])"))["messages"];
  ASSERT_EQ(list.size(), 5u) << list;
  EXPECT_EQ(list[1]["reasoning_content"], "hm");
  EXPECT_EQ(list[1]["content"], "I look.");
  ASSERT_EQ(list[1]["tool_calls"].size(), 2u);
  EXPECT_EQ(list[1]["tool_calls"][0]["function"], (Json{{"name", "look"}, {"arguments", {{"x", 1}}}}));
  EXPECT_EQ(list[2], (Json{{"role", "tool"}, {"tool_call_id", "t2"}, {"name", "see"}, {"content", "two"}}));
  EXPECT_EQ(list[3]["content"], "o\nne");
  EXPECT_EQ(list[4], (Json{{"role", "user"}, {"content", "go on"}}));
}

// The client begins the answer.
TEST(MessagesRequest, ALastTurnOfTheAssistantIsContinued) {
  const Json begun =
      context(turns(R"([{"role":"user","content":"x"},{"role":"assistant","content":"It is"}])"));
  EXPECT_EQ(begun["continue_final_message"], true);
  EXPECT_EQ(begun["add_generation_prompt"], false);
  const Json plain = context(turns(R"([{"role":"user","content":"x"}])"));
  EXPECT_FALSE(plain.contains("continue_final_message"));
  EXPECT_EQ(plain["add_generation_prompt"], true);
}

TEST(MessagesRequest, FieldsReachChat) {
  const auto request =
      with(R"("temperature":0.5,"top_p":0.25,"top_k":3,"stop_sequences":["END"],"stream":true,
      "metadata":{"user_id":"u"},"service_tier":"auto","seed":4,
      "thinking":{"type":"enabled","budget_tokens":1024,"display":"omitted"},
      "output_config":{"effort":"max"},"cache_control":{"type":"ephemeral"})");
  ASSERT_TRUE(request) << request.error().message;
  const CommonFields& common = request->chat.common;
  EXPECT_EQ(common.max_tokens, std::nullopt);
  EXPECT_EQ(common.default_max_tokens, 2000);
  EXPECT_EQ(common.sampling.temperature, 0.5);
  EXPECT_EQ(common.sampling.top_p, 0.25);
  EXPECT_EQ(common.sampling.top_k, 3);
  EXPECT_EQ(common.sampling.seed, 4);
  EXPECT_EQ(common.sampling.stop, (std::vector<std::string>{"END"}));
  EXPECT_TRUE(common.stream);
  EXPECT_EQ(common.user, "u");
  EXPECT_TRUE(common.unknown_fields.empty());
  EXPECT_TRUE(request->omit_thinking);
  const Json seen = context(request);
  EXPECT_EQ(seen["enable_thinking"], true);
  EXPECT_EQ(seen["reasoning_effort"], "xhigh");
}

TEST(MessagesRequest, ThinkingIsASwitchOfTheTemplate) {
  EXPECT_EQ(context(with(R"("thinking":{"type":"disabled"})"))["enable_thinking"], false);
  EXPECT_EQ(context(with(R"("thinking":{"type":"disabled"})"))["thinking"], false);
  EXPECT_FALSE(context(with(R"("thinking":{"type":"adaptive"})")).contains("enable_thinking"));
  EXPECT_FALSE(context(with(R"("top_k":1)")).contains("enable_thinking"));
  const Json own =
      context(with(R"("thinking":{"type":"disabled"},"chat_template_kwargs":{"enable_thinking":true})"));
  EXPECT_EQ(own["enable_thinking"], true);
}

TEST(MessagesRequest, ErrorsNameTheFieldOfThisApi) {
  const std::vector<std::pair<const char*, const char*>> table = {
      {R"("temperature":1.5)", "400 temperature"},
      {R"("temperature":"1")", "400 temperature"},
      {R"("top_p":2)", "400 top_p"},
      {R"("stop_sequences":"x")", "400 stop_sequences"},
      {R"("stop_sequences":[""])", "400 stop_sequences"},
      {R"("stop_sequences":["a"],"stop":"b")", "400 stop"},
      {R"("system":5)", "400 system"},
      {R"("system":[{"type":"image"}])", "400 system[0].type"},
      {R"("tools":[{"type":"bash_20250124","name":"bash"}])", "400 tools[0].type"},
      {R"("tools":[{"name":"x"}])", "400 tools[0].input_schema"},
      {R"("tools":[{"input_schema":{}}])", "400 tools[0].name"},
      {R"("tools":5)", "400 tools"},
      {R"("tool_choice":"auto")", "400 tool_choice"},
      {R"("tool_choice":{"type":"zap"})", "400 tool_choice.type"},
      {R"("tool_choice":{"type":"tool"})", "400 tool_choice.name"},
      {R"("tool_choice":{"type":"auto"})", "ok"},
      {R"("thinking":{"type":"enabled"})", "400 thinking.budget_tokens"},
      {R"("thinking":{"type":"enabled","budget_tokens":5})", "400 thinking.budget_tokens"},
      {R"("thinking":{"type":"enabled","budget_tokens":2000})", "ok"},  // all of max_tokens
      {R"("thinking":{"type":"enabled","budget_tokens":9000})", "ok"},
      {R"("thinking":{"type":"zap"})", "400 thinking.type"},
      {R"("thinking":5)", "400 thinking"},
      {R"("output_config":{"effort":"huge"})", "400 output_config.effort"},
      {R"("output_config":{"format":{"type":"text"}})", "400 output_config.format"},
      {R"("metadata":{"user_id":5})", "400 metadata.user_id"},
      {R"("model":"nope")", "404 model"},
      {R"("stream":1)", "400 stream"},
  };
  for (const auto& [field, expected] : table) {
    const auto request = with(field);
    EXPECT_EQ(verdict(request), expected) << field << (request ? "" : " " + request.error().message);
  }
}

TEST(MessagesRequest, ErrorsOfBlocksNameTheBlock) {
  const std::vector<std::pair<const char*, const char*>> table = {
      {"[]", "400 messages"},
      {"5", "400 messages"},
      {"[5]", "400 messages[0]"},
      {R"([{"role":"user"}])", "400 messages[0].content"},
      {R"([{"role":"tool","content":"x"}])", "400 messages[0].role"},
      {R"([{"content":"x"}])", "400 messages[0].role"},
      {R"([{"role":"user","content":[]}])", "400 messages[0].content"},
      {R"([{"role":"user","content":[{"type":"image","source":{}}]}])", "400 messages[0].content[0].type"},
      {R"([{"role":"user","content":[{"type":"text"}]}])", "400 messages[0].content[0].text"},
      {R"([{"role":"user","content":[{"type":"tool_use","id":"a","name":"b","input":{}}]}])",
       "400 messages[0].content[0].type"},
      {R"([{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}])",
       "400 messages[0].content[0].tool_use_id"},
      {R"([{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"b","input":"x"}]}])",
       "400 messages[0].content[0].input"},
  };
  for (const auto& [list, expected] : table) {
    const auto request = turns(list);
    EXPECT_EQ(verdict(request), expected) << list << (request ? "" : " " + request.error().message);
  }
  EXPECT_EQ(verdict(parse(R"({"messages":[{"role":"user","content":"x"}]})")), "400 max_tokens");
  EXPECT_EQ(verdict(parse(R"({"max_tokens":0,"messages":[{"role":"user","content":"x"}]})")),
            "400 max_tokens");
  EXPECT_EQ(verdict(parse(R"({"max_tokens":1})")), "400 messages");
}

TEST(MessagesRequest, UnknownFieldsAreReported) {
  const auto request = with(R"("n":3,"zap":1,"tool_choice":{"type":"auto","pace":1})");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->chat.common.unknown_fields, (std::vector<std::string>{"n", "zap", "tool_choice.pace"}));
}

TEST(CountTokensRequest, NeedsNoMaxTokens) {
  const auto request =
      parse_count_tokens_request(R"({"messages":[{"role":"user","content":"x"}]})", test_options());
  ASSERT_TRUE(request);
  EXPECT_EQ(context(request)["messages"][0]["content"], "x");
}

}  // namespace
}  // namespace pagoda::openai
