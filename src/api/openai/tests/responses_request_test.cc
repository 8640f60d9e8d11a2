#include "api/openai/responses_request.h"

#include <gtest/gtest.h>

#include "api/openai/tests/request_fixture.h"

namespace pagoda::openai {
namespace {

Result<ResponsesRequest> parse(const std::string& body, const ParseOptions& options = test_options()) {
  return parse_responses_request(body, options);
}
// A body with one more field.
Result<ResponsesRequest> with(const std::string& field) {
  return parse(R"({"input":"hi",)" + field + "}");
}

// What the template sees of `input`.
Json messages(const std::string& input, const std::string& more = "") {
  const auto request = parse(R"({"input":)" + input + more + "}");
  if (!request) return request.error().message;
  return (*parse_json(request->chat.context_json))["messages"];
}

TEST(ResponsesRequest, InputIsTextOrMessages) {
  EXPECT_EQ(messages(R"("hi")"), *parse_json(R"([{"role":"user","content":"hi"}])"));
  EXPECT_EQ(messages(R"([{"role":"user","content":"hi"}])"), messages(R"("hi")"));
  EXPECT_EQ(messages(R"([{"type":"message","role":"user","content":[{"type":"input_text","text":"a"},
                        {"type":"input_text","text":"b"}]},
                        {"type":"message","id":"msg_1","status":"completed","role":"assistant",
                         "content":[{"type":"output_text","text":"c","annotations":[]}]}])"),
            *parse_json(R"([{"role":"user","content":"a\nb"},{"role":"assistant","content":"c"}])"));
}

TEST(ResponsesRequest, InstructionsAndSystemMessagesAreOneSystemMessage) {
  EXPECT_EQ(messages(R"([{"role":"developer","content":"b"},{"role":"system","content":"c"},
                         {"role":"user","content":"hi"}])",
                     R"(,"instructions":"a")"),
            *parse_json(R"([{"role":"system","content":"a\nb\nc"},{"role":"user","content":"hi"}])"));
}

TEST(ResponsesRequest, CallsAndReasoningJoinTheAssistantsMessage) {
  const Json list = messages(R"([{"role":"user","content":"hi"},
      {"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]},
      {"role":"assistant","content":"I look."},
      {"type":"function_call","id":"fc_1","call_id":"c1","name":"look","arguments":"{\"x\":1}"},
      {"type":"function_call","call_id":"c2","name":"see","arguments":""},
      {"type":"function_call_output","call_id":"c2","output":"two"},
      {"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"one"}]},
      {"type":"reasoning","summary":[{"type":"summary_text","text":"so"}]},
      {"type":"function_call","call_id":"c3","name":"go","arguments":"{}"},
      {"type":"function_call_output","call_id":"c3","output":""}])");
  ASSERT_EQ(list.size(), 6u) << list;
  EXPECT_EQ(list[1]["reasoning_content"], "hm");
  EXPECT_EQ(list[1]["content"], "I look.");
  ASSERT_EQ(list[1]["tool_calls"].size(), 2u);
  EXPECT_EQ(list[1]["tool_calls"][0]["function"], (Json{{"name", "look"}, {"arguments", {{"x", 1}}}}));
  EXPECT_EQ(list[1]["tool_calls"][1]["id"], "c2");
  EXPECT_EQ(list[2], (Json{{"role", "tool"}, {"tool_call_id", "c2"}, {"name", "see"}, {"content", "two"}}));
  EXPECT_EQ(list[3]["content"], "one");
  EXPECT_EQ(list[4]["reasoning_content"], "so");
  EXPECT_EQ(list[4]["tool_calls"][0]["function"]["name"], "go");
  EXPECT_EQ(list[5]["content"], "");
}

TEST(ResponsesRequest, FieldsReachChat) {
  const auto request = with(R"("max_output_tokens":5,"temperature":0.5,"top_p":0.25,"top_k":3,"seed":4,
      "include":["message.output_text.logprobs"],"top_logprobs":2,"stream":true,
      "stream_options":{"include_obfuscation":false},"reasoning":{"effort":"low","summary":"auto"},
      "user":"u","model":"tiny","cache_salt":"s","chat_template_kwargs":{"k":1})");
  ASSERT_TRUE(request) << request.error().message;
  const CommonFields& common = request->chat.common;
  EXPECT_EQ(common.max_tokens, 5);
  EXPECT_EQ(common.sampling.temperature, 0.5);
  EXPECT_EQ(common.sampling.top_p, 0.25);
  EXPECT_EQ(common.sampling.top_k, 3);
  EXPECT_EQ(common.sampling.seed, 4);
  EXPECT_EQ(common.logprobs, 2);
  EXPECT_TRUE(common.stream);
  EXPECT_EQ(common.user, "u");
  EXPECT_EQ(common.cache_salt, "s");
  EXPECT_EQ(common.n, 1);
  EXPECT_TRUE(common.unknown_fields.empty());
  const Json context = *parse_json(request->chat.context_json);
  EXPECT_EQ(context["reasoning_effort"], "low");
  EXPECT_EQ(context["k"], 1);
}

// A key for the cache of prompts is no salt: it separates nobody.
TEST(ResponsesRequest, ThePromptCacheKeyIsNoSalt) {
  const auto request =
      with(R"("prompt_cache_key":"k","safety_identifier":"x","service_tier":"auto","store":true)");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->chat.common.cache_salt, "");
  EXPECT_EQ(request->echo["prompt_cache_key"], "k");
  EXPECT_EQ(request->echo["store"], false);
  EXPECT_EQ(request->echo["service_tier"], "default");
}

TEST(ResponsesRequest, TheResponseRepeatsTheRequest) {
  const auto request =
      with(R"("instructions":"be","metadata":{"a":"b"},"temperature":0,"max_output_tokens":9)");
  ASSERT_TRUE(request);
  EXPECT_EQ(dump_json(request->echo),
            R"({"background":false,"previous_response_id":null,"store":false,"instructions":"be","tools":[],)"
            R"("parallel_tool_calls":true,"tool_choice":"auto","text":{"format":{"type":"text"},)"
            R"("verbosity":"medium"},"reasoning":{"effort":null,"summary":null},"top_logprobs":0,)"
            R"("max_output_tokens":9,"max_tool_calls":null,"truncation":"disabled","metadata":{"a":"b"},)"
            R"("safety_identifier":null,"prompt_cache_key":null,"prompt_cache_retention":null,"user":null,)"
            R"("service_tier":"default","temperature":0.0,"top_p":1.0})");
}

TEST(ResponsesRequest, UnknownFieldsAreReported) {
  const auto request =
      with(R"("n":3,"messages":[],"zap":1,"reasoning":{"pace":"slow"},"text":{"verbosity":"low"})");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->chat.common.n, 1);
  EXPECT_EQ(request->chat.common.unknown_fields,
            (std::vector<std::string>{"n", "messages", "zap", "reasoning.pace", "text.verbosity"}));
  const auto inside = with(R"("text":{"format":{"type":"text","zap":1}},"structured_outputs":{"zap":1})");
  ASSERT_TRUE(inside) << inside.error().message;
  EXPECT_EQ(inside->chat.common.unknown_fields,
            (std::vector<std::string>{"text.format.zap", "structured_outputs.zap"}));
  ParseOptions strict = test_options();
  strict.strict = true;
  EXPECT_EQ(verdict(parse(R"({"input":"hi","n":3})", strict)), "400 n");
  EXPECT_EQ(verdict(parse(R"({"input":"hi","text":{"format":{"type":"text","zap":1}}})", strict)),
            "400 text.format.zap");
  EXPECT_EQ(verdict(parse(R"({"input":"hi","reasoning":{"pace":1}})", strict)), "400 reasoning.pace");
  EXPECT_EQ(verdict(parse(R"({"input":"hi","store":false})", strict)), "ok");
}

TEST(ResponsesRequest, ErrorsNameTheFieldOfThisApi) {
  const std::vector<std::pair<const char*, const char*>> table = {
      {R"("previous_response_id":"resp_1")", "400 previous_response_id"},
      {R"("conversation":"conv_1")", "400 conversation"},
      {R"("prompt":{"id":"p"})", "400 prompt"},
      {R"("background":true)", "400 background"},
      {R"("background":false,"previous_response_id":null)", "ok"},
      {R"("truncation":"auto")", "400 truncation"},
      {R"("truncation":"disabled")", "ok"},
      {R"("max_output_tokens":0)", "400 max_output_tokens"},
      {R"("max_output_tokens":"1")", "400 max_output_tokens"},
      {R"("max_tool_calls":0)", "400 max_tool_calls"},
      {R"("temperature":2.5)", "400 temperature"},
      {R"("top_p":0)", "400 top_p"},
      {R"("top_logprobs":3)", "400 top_logprobs"},
      {R"("top_logprobs":21,"include":["message.output_text.logprobs"])", "400 top_logprobs"},
      {R"("include":["reasoning.encrypted_content"])", "ok"},
      {R"("include":["all"])", "400 include"},
      {R"("include":"x")", "400 include"},
      {R"("tools":[{"type":"web_search"}])", "400 tools[0].type"},
      {R"("tools":[{"name":"x"}])", "400 tools[0].type"},
      {R"("tools":{})", "400 tools"},
      {R"("tool_choice":{"type":"file_search"})", "400 tool_choice.type"},
      {R"("tool_choice":{"type":"function"})", "400 tool_choice.name"},
      {R"("text":"x")", "400 text"},
      {R"("text":{"format":5})", "400 text.format"},
      {R"("text":{"format":{"type":"zap"}})", "400 text.format"},
      {R"("text":{"format":{"type":"text"}})", "ok"},
      {R"("reasoning":{"effort":"huge"})", "400 reasoning.effort"},
      {R"("reasoning":{"effort":1})", "400 reasoning.effort"},
      {R"("metadata":{"a":1})", "400 metadata"},
      {R"("metadata":[])", "400 metadata"},
      {R"("instructions":1)", "400 instructions"},
      {R"("stream_options":{})", "400 stream_options"},
      {R"("model":"nope")", "404 model"},
      {R"("user":1)", "400 user"},
      {R"("store":"yes")", "400 store"},
      {R"("stop":"")", "400 stop"},
  };
  for (const auto& [field, expected] : table) {
    const auto request = with(field);
    EXPECT_EQ(verdict(request), expected) << field << (request ? "" : " " + request.error().message);
  }
  EXPECT_EQ(with(R"("text":{"format":{"type":"json_schema","name":"x"}})").error().message,
            "text.format.schema must be a JSON schema.");
}

TEST(ResponsesRequest, ErrorsOfItemsNameTheItem) {
  const std::vector<std::pair<const char*, const char*>> table = {
      {"5", "400 input"},
      {"[]", "400 input"},
      {"null", "400 input"},
      {"[5]", "400 input[0]"},
      {R"([{"role":"user"}])", "400 input[0].content"},
      {R"([{"role":"user","content":[]}])", "400 input[0].content"},
      {R"([{"role":"user","content":[{"type":"input_image","image_url":"x"}]}])",
       "400 input[0].content[0].type"},
      {R"([{"role":"user","content":[{"type":"input_file"}]}])", "400 input[0].content[0].type"},
      {R"([{"role":"user","content":[{"type":"input_text"}]}])", "400 input[0].content[0]"},
      {R"([{"role":"robot","content":"x"}])", "400 input[0].role"},
      {R"([{"content":"x"}])", "400 input[0].role"},
      {R"([{"type":"item_reference","id":"x"}])", "400 input[0].type"},
      {R"([{"type":"web_search_call"}])", "400 input[0].type"},
      {R"([{"type":5}])", "400 input[0].type"},
      {R"([{"type":"function_call","call_id":"c","arguments":"{}"}])", "400 input[0].name"},
      {R"([{"type":"function_call","call_id":"c","name":"f","arguments":"{"}])", "400 input[0].arguments"},
      {R"([{"role":"user","content":"x"},{"type":"function_call_output","call_id":"c","output":""}])",
       "400 input[1].call_id"},
      {R"([{"type":"reasoning","content":[5]}])", "400 input[0].content[0]"},
      {R"([{"type":"reasoning","summary":[]}])", "400 input"},
  };
  for (const auto& [input, expected] : table) {
    const auto request = parse(std::string(R"({"input":)") + input + "}");
    EXPECT_EQ(verdict(request), expected) << input;
    if (!request) {
      EXPECT_NE(request.error().message.find(request.error().param), std::string::npos)
          << request.error().message;
    }
  }
  EXPECT_EQ(verdict(parse("{}")), "400 input");
  EXPECT_EQ(verdict(parse("[]")), "400 ");
}

TEST(ResponsesRequest, LaterErrorsNameTheFieldOfThisApi) {
  const Error error =
      responses_error(make_error(ErrorKind::kContextLengthExceeded, "messages", "messages", "c"));
  EXPECT_EQ(error.param, "input");
  EXPECT_EQ(error.message, "messages");
  EXPECT_EQ(error.code, "c");
}

}  // namespace
}  // namespace pagoda::openai
