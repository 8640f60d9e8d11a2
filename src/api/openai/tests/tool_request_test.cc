#include "api/openai/tool_request.h"

#include <gtest/gtest.h>

#include <memory>

#include "api/openai/output/output_format.h"
#include "api/openai/tests/request_fixture.h"

namespace pagoda::openai {
namespace {

constexpr const char* kF = R"({"type":"function","function":{"name":"f","parameters":{"type":"object"}}})";
constexpr const char* kG = R"({"type":"function","function":{"name":"g","description":"d","strict":true}})";

ParseOptions options_with_format(const std::string& marks) {
  ParseOptions options = test_options();
  options.output_format = std::make_shared<const OutputFormat>(*choose_output_format(marks, "", ""));
  return options;
}

Result<ChatRequest> parse(const std::string& fields, const std::string& marks = "<tool_call>") {
  return parse_chat_request(chat_body(fields), options_with_format(marks));
}

std::string tools(const std::string& list, const std::string& more = "") {
  return fmt::format(R"("tools":[{}]{}{})", list, more.empty() ? "" : ",", more);
}

std::string both(const std::string& more = "") {
  return tools(fmt::format("{},{}", kF, kG), more);
}

TEST(ToolRequest, WrongTools) {
  struct Case {
    std::string field, verdict;
  };
  const Case cases[] = {
      {R"("tools":5)", "400 tools"},
      {R"("tools":{})", "400 tools"},
      {tools("5"), "400 tools[0]"},
      {tools("{}"), "400 tools[0].type"},
      {tools(R"({"type":"web_search"})"), "400 tools[0].type"},
      {tools(R"({"type":"function"})"), "400 tools[0].function"},
      {tools(R"({"type":"function","function":[]})"), "400 tools[0].function"},
      {tools(R"({"type":"function","function":{}})"), "400 tools[0].function.name"},
      {tools(R"({"type":"function","function":{"name":""}})"), "400 tools[0].function.name"},
      {tools(R"({"type":"function","function":{"name":"a b"}})"), "400 tools[0].function.name"},
      {tools(R"({"type":"function","function":{"name":7}})"), "400 tools[0].function.name"},
      {tools(fmt::format(R"({{"type":"function","function":{{"name":"{}"}}}})", std::string(129, 'a'))),
       "400 tools[0].function.name"},
      {tools(R"({"type":"function","function":{"name":"f","parameters":[]}})"),
       "400 tools[0].function.parameters"},
      {tools(R"({"type":"function","function":{"name":"f","parameters":{"type":"string"}}})"),
       "400 tools[0].function.parameters"},
      {tools(R"({"type":"function","function":{"name":"f","description":1}})"),
       "400 tools[0].function.description"},
      {tools(R"({"type":"function","function":{"name":"f","strict":"yes"}})"),
       "400 tools[0].function.strict"},
      {tools(fmt::format("{},{}", kF, kF)), "400 tools[1].function.name"},
      {both(R"("functions":[])"), "400 functions"},
      {R"("functions":[{"parameters":{}}])", "400 functions[0].name"},
      {both(R"("parallel_tool_calls":1)"), "400 parallel_tool_calls"},
      {both(), "ok"},
      {tools(R"({"type":"function","function":{"name":"mcp.x:y/z-1_2","parameters":null,"strict":null}})"),
       "ok"},
      {R"("tools":[],"tool_choice":"auto")", "ok"},
      {R"("tools":null)", "ok"},
  };
  for (const Case& c : cases) EXPECT_EQ(verdict(parse(c.field)), c.verdict) << c.field;
}

TEST(ToolRequest, TooMany) {
  std::string list;
  for (int i = 0; i < 10000; ++i) {
    list += fmt::format(R"({}{{"type":"function","function":{{"name":"f{}"}}}})", i == 0 ? "" : ",", i);
  }
  EXPECT_EQ(verdict(parse(tools(list))), "400 tools");
}

// CASES B049.
TEST(ToolRequest, Choices) {
  struct Case {
    std::string choice, verdict;
  };
  const Case cases[] = {
      {R"("none")", "ok"},
      {R"("auto")", "ok"},
      {R"("required")", "ok"},
      {R"({"type":"function","function":{"name":"g"}})", "ok"},
      {R"({"type":"function","function":{"name":"h"}})", "400 tool_choice"},
      {R"({"type":"function","function":{}})", "400 tool_choice"},
      {R"({"type":"function"})", "400 tool_choice"},
      {R"({"type":"zzz","function":{"name":"g"}})", "400 tool_choice"},
      {R"({})", "400 tool_choice"},
      {R"("foo")", "400 tool_choice"},
      {R"(5)", "400 tool_choice"},
      {R"([])", "400 tool_choice"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(verdict(parse(both(R"("tool_choice":)" + c.choice))), c.verdict) << c.choice;
  }
  for (const std::string none : {R"("tools":[],)", R"("tools":null,)", ""}) {
    EXPECT_EQ(verdict(parse(none + R"("tool_choice":"required")")), "400 tool_choice") << none;
    EXPECT_EQ(verdict(parse(none + R"("tool_choice":"none")")), "ok") << none;
  }
  const std::string functions = R"("functions":[{"name":"f"}],"function_call":)";
  EXPECT_EQ(verdict(parse(functions + R"({"name":"f"})")), "ok");
  EXPECT_EQ(verdict(parse(functions + R"({"name":"x"})")), "400 function_call");
  EXPECT_EQ(verdict(parse(functions + R"("required")")), "400 function_call");
}

TEST(ToolRequest, WhatTheParserAndTheTemplateGet) {
  const auto automatic = parse(both());
  EXPECT_TRUE(automatic->parsing.tools);
  EXPECT_FALSE(automatic->parsing.one_call);
  EXPECT_EQ(automatic->parsing.tool_specs.size(), 2u);
  EXPECT_FALSE(automatic->common.grammar);
  EXPECT_NE(automatic->context_json.find(fmt::format(R"("tools":[{},{}])", kF, kG)), std::string::npos);

  const auto none = parse(both(R"("tool_choice":"none")"));
  EXPECT_FALSE(none->parsing.tools);
  EXPECT_NE(none->context_json.find(R"("tools":null)"), std::string::npos);

  const auto serial = parse(both(R"("parallel_tool_calls":false)"));
  EXPECT_TRUE(serial->parsing.one_call);

  const auto legacy = parse(R"("functions":[{"name":"f"}])");
  EXPECT_TRUE(legacy->parsing.legacy_call);
  EXPECT_TRUE(legacy->parsing.one_call);
  EXPECT_NE(legacy->context_json.find(R"("tools":[{"type":"function","function":{"name":"f"}}])"),
            std::string::npos);
}

TEST(ToolRequest, ForcedCallsHaveAGrammar) {
  const auto required = parse(both(R"("tool_choice":"required")"));
  ASSERT_TRUE(required->common.grammar);
  EXPECT_EQ(required->common.grammar->kind, OutputGrammar::Kind::kLark);
  EXPECT_EQ(required->common.grammar->param, "tool_choice");
  EXPECT_NE(required->common.grammar->text.find("call: call_0 | call_1\n"), std::string::npos)
      << required->common.grammar->text;
  EXPECT_NE(required->common.grammar->text.find("){0,15}"), std::string::npos);

  const auto named = parse(both(R"("tool_choice":{"type":"function","function":{"name":"g"}})"));
  ASSERT_TRUE(named->common.grammar);
  EXPECT_EQ(named->common.grammar->text.find("\\\"f\\\""), std::string::npos);
  EXPECT_NE(named->common.grammar->text.find("\\\"g\\\""), std::string::npos);
  EXPECT_EQ(named->common.grammar->text.find("){0,15}"), std::string::npos);
  EXPECT_EQ(named->parsing.tool_specs.size(), 1u);

  ParseOptions off = test_options();
  off.output_format = std::make_shared<const OutputFormat>(*choose_output_format("<tool_call>", "none", ""));
  EXPECT_EQ(verdict(parse_chat_request(chat_body(both(R"("tool_choice":"required")")), off)),
            "501 tool_choice");
  EXPECT_EQ(verdict(parse_chat_request(chat_body(both()), off)), "ok");
}

TEST(ToolRequest, ReasoningStartsWhereThePromptSays) {
  ParseOptions options = options_with_format("<think>");
  std::string prompt = "<|assistant|><think>\n";
  options.render = [&](const std::string&) -> Result<std::string> { return prompt; };
  EXPECT_TRUE(parse_chat_request(chat_body(R"("n":1)"), options)->parsing.starts_in_reasoning);
  prompt = "<|assistant|><think></think>";
  const auto closed = parse_chat_request(chat_body(R"("include_reasoning":false)"), options);
  EXPECT_FALSE(closed->parsing.starts_in_reasoning);
  EXPECT_TRUE(closed->parsing.reasoning);
  EXPECT_FALSE(closed->parsing.include_reasoning);
  const auto continued = parse_chat_request(
      R"({"messages":[{"role":"assistant","content":"<think>so"}],"continue_final_message":true})", options);
  EXPECT_TRUE(continued->parsing.starts_in_reasoning);
  EXPECT_EQ(verdict(parse_chat_request(chat_body(R"("include_reasoning":1)"), options)),
            "400 include_reasoning");
}

TEST(ToolRequest, GrammarsOfTheRequestLeaveRoomForReasoningAndCalls) {
  ParseOptions options = options_with_format("<think><tool_call>");
  const auto parsed = [&](const std::string& fields) {
    return parse_chat_request(chat_body(fields), options).value();
  };
  const ChatRequest json = parsed(both(R"("response_format":{"type":"json_object"})"));
  EXPECT_EQ(json.common.grammar->kind, OutputGrammar::Kind::kLark);
  EXPECT_EQ(json.common.grammar->param, "response_format");
  EXPECT_NE(json.common.grammar->text.find("(calls | answer)"), std::string::npos)
      << json.common.grammar->text;
  EXPECT_TRUE(json.parsing.tools && json.parsing.reasoning);
  const ChatRequest regex = parsed(both(R"("structured_outputs":{"regex":"a+"})"));
  EXPECT_EQ(regex.common.grammar->kind, OutputGrammar::Kind::kRegex);
  EXPECT_FALSE(regex.parsing.tools || regex.parsing.reasoning);
  const ChatRequest forced =
      parsed(both(R"("response_format":{"type":"json_object"},"tool_choice":"required")"));
  EXPECT_EQ(forced.common.grammar->param, "tool_choice");
  const std::string both_wanted = R"("structured_outputs":{"choice":["a"]},"tool_choice":"required")";
  EXPECT_EQ(verdict(parse_chat_request(chat_body(both(both_wanted)), options)), "400 tool_choice");
  options = options_with_format("");
  const ChatRequest plain = parsed(R"("response_format":{"type":"json_object"})");
  EXPECT_EQ(plain.common.grammar->kind, OutputGrammar::Kind::kJsonObject);
}

}  // namespace
}  // namespace pagoda::openai
