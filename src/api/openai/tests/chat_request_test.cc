#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/openai/json_text.h"
#include "api/openai/request.h"
#include "api/openai/tests/request_fixture.h"

namespace pagoda::openai {
namespace {

std::string check(const std::string& field) {
  return verdict(parse_chat_request(chat_body(field), test_options()));
}

std::string check_messages(const std::string& messages) {
  return verdict(parse_chat_request(fmt::format(R"({{"messages":{}}})", messages), test_options()));
}

Json context_of(const std::string& body, const ParseOptions& options = test_options()) {
  const auto request = parse_chat_request(body, options);
  EXPECT_TRUE(request) << body << ": " << (request ? "" : request.error().message);
  return request ? *parse_json(request->context_json) : Json();
}

Json content_of(const std::string& content, bool parts = false) {
  ParseOptions options = test_options();
  options.content_parts = parts;
  return context_of(fmt::format(R"({{"messages":[{{"role":"user","content":{}}}]}})", content),
                    options)["messages"][0]["content"];
}

struct Case {
  const char* field;
  const char* verdict;
};

// CASES B038: messages of the wrong shape.
TEST(ChatRequest, MessageShapes) {
  EXPECT_EQ(verdict(parse_chat_request("{}", test_options())), "400 messages");
  const Case cases[] = {
      {"null", "400 messages"},
      {R"("x")", "400 messages"},
      {"[]", "400 messages"},
      {"[123]", "400 messages[0]"},
      {"[null]", "400 messages[0]"},
      {"[{}]", "400 messages[0].role"},
      {R"([{"role":123}])", "400 messages[0].role"},
      {R"([{"role":""}])", "400 messages[0].role"},
      {R"([{"content":"x"}])", "400 messages[0].role"},
      {R"([{"role":"user"}])", "400 messages[0].content"},
      {R"([{"role":"user","content":null}])", "400 messages[0].content"},
      {R"([{"role":"user","content":123}])", "400 messages[0].content"},
      {R"([{"role":"user","content":{}}])", "400 messages[0].content"},
      {R"([{"role":"user","content":[]}])", "400 messages[0].content"},
      {R"([{"role":"user","content":[{"type":"text"}]}])", "400 messages[0].content"},
      {R"([{"role":"user","content":[{"type":"zzz"}]}])", "400 messages[0].content"},
      {R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}])",
       "400 messages[0].content"},
      {R"([{"role":"user","content":[{"text":"x"}]}])", "400 messages[0].content"},
      {R"([{"role":"user","content":[1]}])", "400 messages[0].content"},
      {R"([{"role":"user","content":"a"},{"role":"user","content":5}])", "400 messages[1].content"},
      {R"([{"role":"foo","content":"x"}])", "400 messages[0].role"},
      {R"([{"role":"developer","content":"x"}])", "ok"},
      {R"([{"role":"assistant","content":null}])", "ok"},
      {R"([{"role":"assistant"}])", "ok"},
  };
  for (const Case& c : cases) EXPECT_EQ(check_messages(c.field), c.verdict) << c.field;
}

// CASES B039.
TEST(ChatRequest, ContentParts) {
  EXPECT_EQ(content_of(R"([{"type":"text","text":"A"},{"type":"text","text":"B"}])"), "A\nB");
  EXPECT_EQ(content_of(R"([{"type":"text","text":"A"}])"), content_of(R"("A")"));
  EXPECT_EQ(dump_json(content_of(R"([{"type":"text","text":"A"},{"type":"text","text":"B"}])", true)),
            R"([{"type":"text","text":"A"},{"type":"text","text":"B"}])");
  EXPECT_EQ(content_of(R"([{"type":"text","text":"A"}])", true), content_of(R"("A")", true));
}

// CASES B038.
TEST(ChatRequest, RolesAreThoseOfTheApiOrTheTemplate) {
  const auto role = [](const std::string& name, const std::string& source) {
    ParseOptions options = test_options();
    options.roles = ChatRoles(source);
    const std::string body = fmt::format(R"({{"messages":[{{"role":"{}","content":"x"}}]}})", name);
    const auto request = parse_chat_request(body, options);
    return request ? parse_json(request->context_json)->at("messages")[0]["role"].get<std::string>()
                   : verdict(request);
  };
  EXPECT_EQ(role("user", ""), "user");
  EXPECT_EQ(role("tool", ""), "tool");
  EXPECT_EQ(role("function", ""), "tool");
  EXPECT_EQ(role("developer", "{{ m.role }}"), "system");
  EXPECT_EQ(role("developer", "{% if m.role == 'developer' %}"), "developer");
  EXPECT_EQ(role("ipython", "{% if m.role == \"ipython\" %}"), "ipython");
  EXPECT_EQ(role("ipython", "{{ m.role }}"), "400 messages[0].role");
  EXPECT_EQ(role("' + x + '", "{{ '' + x + '' }}"), "400 messages[0].role");
}

// CASES B040 and B041.
TEST(ChatRequest, ToolCallsInTheHistory) {
  const auto message = [](const std::string& fields) {
    return context_of(
        fmt::format(R"({{"messages":[{{"role":"assistant",{}}},{{"role":"tool","content":"4"}}]}})",
                    fields))["messages"][0];
  };
  const std::string calls = R"("tool_calls":[{"id":"c","type":"function","function":{"name":"f",)"
                            R"("arguments":"{\"city\": \"Paris\"}"}}])";
  const Json with_null = message(R"("content":null,)" + calls);
  EXPECT_EQ(with_null["content"], "");
  EXPECT_EQ(dump_json(with_null["tool_calls"][0]["function"]["arguments"]), R"({"city":"Paris"})");
  EXPECT_EQ(message(calls)["content"], "");
  EXPECT_EQ(message(R"("content":"",)" + calls)["tool_calls"], with_null["tool_calls"]);
  const auto arguments = [](const std::string& value) {
    return check_messages(fmt::format(
        R"([{{"role":"assistant","tool_calls":[{{"function":{{"name":"f","arguments":{}}}}}]}}])", value));
  };
  EXPECT_EQ(arguments(R"("")"), "ok");
  EXPECT_EQ(arguments("null"), "ok");
  EXPECT_EQ(arguments(R"({"a":1})"), "ok");
  EXPECT_EQ(arguments(R"("[1]")"), "400 messages[0].tool_calls");
  EXPECT_EQ(arguments(R"("{")"), "400 messages[0].tool_calls");
  EXPECT_EQ(arguments("5"), "400 messages[0].tool_calls");
  EXPECT_EQ(check_messages(R"([{"role":"assistant","tool_calls":[{"function":{}}]}])"),
            "400 messages[0].tool_calls");
  EXPECT_EQ(check_messages(R"([{"role":"assistant","tool_calls":"x"}])"), "400 messages[0].tool_calls");
}

TEST(ChatRequest, ContextHasWhatTemplatesExpect) {
  const Json context =
      context_of(chat_body(R"("chat_template_kwargs":{"enable_thinking":false},"reasoning_effort":"low")"));
  EXPECT_EQ(dump_json(context),
            R"({"messages":[{"role":"user","content":"hi"}],"tools":null,"documents":null,)"
            R"("add_generation_prompt":true,)"
            R"("bos_token":"<s>","eos_token":"</s>","reasoning_effort":"low","enable_thinking":false})");
  EXPECT_EQ(context_of(chat_body(R"("add_generation_prompt":false)"))["add_generation_prompt"], false);
  const Json continued = context_of(chat_body(R"("continue_final_message":true)"));
  EXPECT_EQ(continued["add_generation_prompt"], false);
  EXPECT_EQ(continued["continue_final_message"], true);
  EXPECT_EQ(check(R"("continue_final_message":true,"add_generation_prompt":true)"),
            "400 continue_final_message");
}

// CASES B074 and B075: nothing in a request replaces the template or what the server sets.
TEST(ChatRequest, ReservedTemplateArguments) {
  for (const char* name :
       {"messages", "tools", "documents", "add_generation_prompt", "continue_final_message", "bos_token",
        "eos_token", "chat_template", "raise_exception", "strftime_now"}) {
    EXPECT_EQ(check(fmt::format(R"("chat_template_kwargs":{{"{}":[]}})", name)), "400 chat_template_kwargs")
        << name;
  }
  EXPECT_EQ(check(R"("chat_template_kwargs":[])"), "400 chat_template_kwargs");
  EXPECT_EQ(check(R"("chat_template":"{{ 1 }}")"), "400 chat_template");
  std::string many = R"("chat_template_kwargs":{"k":1)";
  for (int i = 0; i < 100; ++i) many += fmt::format(R"(,"{}":1)", i);
  EXPECT_EQ(check(many + "}"), "400 chat_template_kwargs");
}

TEST(ChatRequest, Fields) {
  const Case cases[] = {
      {R"("max_tokens":0)", "400 max_tokens"},  // CASES B029
      {R"("max_completion_tokens":0)", "400 max_completion_tokens"},
      {R"("max_tokens":5,"max_completion_tokens":7)", "ok"},
      {R"("logprobs":true)", "ok"},
      {R"("logprobs":true,"top_logprobs":20)", "ok"},
      {R"("logprobs":true,"top_logprobs":21)", "400 top_logprobs"},
      {R"("logprobs":true,"top_logprobs":2.5)", "400 top_logprobs"},
      {R"("top_logprobs":2)", "400 top_logprobs"},
      {R"("top_logprobs":0)", "ok"},
      {R"("logprobs":2)", "400 logprobs"},
      {R"("reasoning_effort":"zzz")", "400 reasoning_effort"},
      // CASES B049; more with tools in tool_request_test.cc.
      {R"("tool_choice":"none")", "ok"},
      {R"("tool_choice":"auto","tools":[])", "ok"},
      {R"("tool_choice":"required")", "400 tool_choice"},
      {R"("tool_choice":"foo")", "400 tool_choice"},
      {R"("tool_choice":{"type":"function","function":{}})", "400 tool_choice"},
      {R"("tool_choice":"none","tools":[{"type":"function"}])", "400 tools[0].function"},
      {R"("documents":[{"text":"a"}])", "ok"},
      {R"("documents":"a")", "400 documents"},
  };
  for (const Case& c : cases) EXPECT_EQ(check(c.field), c.verdict) << c.field;
  const auto both =
      parse_chat_request(chat_body(R"("max_tokens":5,"max_completion_tokens":7)"), test_options());
  EXPECT_EQ(both->common.max_tokens, 7);
  EXPECT_EQ(parse_chat_request(chat_body(R"("logprobs":true)"), test_options())->common.logprobs, 0);
  EXPECT_EQ(parse_chat_request(chat_body(R"("user":"u")"), test_options())->common.default_max_tokens,
            std::nullopt);
}

}  // namespace
}  // namespace pagoda::openai
