#include "api/openai/output/tests/parse_output.h"

namespace pagoda::openai {
namespace {

using Calls = std::vector<ParsedCall>;

void expect_calls(const std::string& parser, const std::string& text, const Calls& calls,
                  const std::string& content = "") {
  const ParsedOutput output = parse_output(parsing_for(parser), text);
  EXPECT_EQ(output.calls, calls) << parser << ": " << text;
  EXPECT_EQ(output.content, content) << parser << ": " << text;
  EXPECT_EQ(output.made_calls, !calls.empty()) << parser << ": " << text;
}

// No call, every byte is content.
void expect_content(const std::string& parser, const std::string& text) {
  expect_calls(parser, text, {}, text);
}

// A call began and did not come to its end.
void expect_broken_call(const std::string& parser, const std::string& text, const ParsedCall& call,
                        const std::string& content = "") {
  const ParsedOutput output = parse_output(parsing_for(parser), text);
  EXPECT_EQ(output.calls, Calls{call}) << parser << ": " << text;
  EXPECT_EQ(output.content, content) << parser << ": " << text;
  EXPECT_FALSE(output.made_calls) << parser << ": " << text;
}

TEST(ToolCallsTest, Hermes) {
  expect_calls("hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>",
               {{"f", "{\"a\": 1}"}});
  expect_calls(
      "hermes",
      "Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>\n<tool_call>\n"
      "{\"arguments\": {\"s\": \"}\\\"<tool_call>é\"}, \"name\": \"g\"}\n</tool_call>\n",
      {{"f", "{\"a\": 1}"}, {"g", "{\"s\": \"}\\\"<tool_call>é\"}"}}, "Let me see.");
  expect_calls("hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call> done.", {{"f", "{}"}},
               "done.");
  expect_calls("hermes", "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":2}}", {{"f", "{\"a\":2}"}});
  expect_calls("hermes", "```\n<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>\n```",
               {{"f", "{}"}}, "``````");
  expect_calls("hermes",
               "<tool_call>[{\"name\":\"f\",\"arguments\":{}},{\"name\":\"g\",\"arguments\":{}}]</tool_call>",
               {{"f", "{}"}, {"g", "{}"}});
}

TEST(ToolCallsTest, ArgumentsAreAlwaysAnObject) {
  expect_calls("hermes", "<tool_call>{\"name\": \"now\"}</tool_call>", {{"now", "{}"}});
  expect_calls("hermes", "<tool_call>{\"name\": \"now\", \"arguments\": null}</tool_call>", {{"now", "{}"}});
  expect_calls("hermes", "<tool_call>{\"name\": \"now\", \"arguments\": \"\"}</tool_call>", {{"now", "{}"}});
  expect_calls("hermes", "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>",
               {{"f", "{\"a\": 1}"}});
  expect_content("hermes", "<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>");
  expect_content("hermes", "<tool_call>{\"name\": \"f\", \"arguments\": \"[1]\"}</tool_call>");
  expect_content("hermes", "<tool_call>{\"name\": \"\", \"arguments\": {}}</tool_call>");
  expect_content("hermes", "<tool_call>{\"name\": 5, \"arguments\": {}}</tool_call>");
}

TEST(ToolCallsTest, UnknownNamesPassWhereMarkersShowACall) {
  expect_calls("hermes", "<tool_call>{\"name\": \"nope\", \"arguments\": {}}</tool_call>", {{"nope", "{}"}});
}

TEST(ToolCallsTest, BrokenMarkupIsContent) {
  for (const char* text :
       {"<tool_call>", "<tool_c", "a <tool_call> b", "<tool_call>{\"name\": \"f\", \"argu",
        "<tool_call>{\"name\": \"f\" \"arguments\": {}}</tool_call>", "x</tool_call>", "<tool_call>\n\n",
        "<tool_call>{'name': 'f'}</tool_call>", "<tool_call>{}</tool_call>", " \n", "a \n"}) {
    expect_content("hermes", text);
  }
  expect_calls("hermes", "<tool_call>oops<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>",
               {{"f", "{}"}}, "<tool_call>oops");
}

TEST(ToolCallsTest, CallsThatBreakOff) {
  expect_broken_call("hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"x",
                     {"f", "{\"a\": \"x"});
  expect_broken_call("hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}", {"f", "{\"a\": 1}"});
  expect_broken_call("hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": oops}}</tool_call>",
                     {"f", "{\"a\": "}, "oops}}</tool_call>");
  const ParsedOutput output = parse_output(parsing_for("hermes"),
                                           "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>"
                                           "<tool_call>{\"name\": \"g\", \"arguments\": {\"a\"");
  EXPECT_EQ(output.calls, (Calls{{"f", "{}"}, {"g", "{\"a\""}}));
  EXPECT_FALSE(output.made_calls);
}

TEST(ToolCallsTest, OneCall) {
  OutputParsing parsing = parsing_for("hermes");
  parsing.one_call = true;
  const ParsedOutput output = parse_output(
      parsing,
      "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>\n<tool_call>{\"name\": \"g\", "
      "\"arguments\": {\"b\": 2");
  EXPECT_EQ(output.calls, (Calls{{"f", "{\"a\": 1}"}}));
  EXPECT_TRUE(output.made_calls);
  EXPECT_EQ(output.content, "");
}

TEST(ToolCallsTest, Qwen3Coder) {
  const std::string call =
      "<tool_call>\n<function=get_weather>\n<parameter=city>\nNew "
      "\"York\"\n</parameter>\n<parameter=days>\n3\n</parameter>\n"
      "<parameter=metric>\nTrue\n</parameter>\n<parameter=tags>\n[\"a\", "
      "1]\n</parameter>\n<parameter=at>\nnull\n"
      "</parameter>\n<parameter=other>\n5\n</parameter>\n</function>\n</tool_call>";
  const std::string arguments =
      "{\"city\": \"New \\\"York\\\"\", \"days\": 3, \"metric\": true, \"tags\": [\"a\", 1], \"at\": "
      "null, \"other\": \"5\"}";
  expect_calls("qwen3_coder", "I look.\n" + call + "\n" + call,
               {{"get_weather", arguments}, {"get_weather", arguments}}, "I look.");
  expect_calls("qwen3_coder", "<tool_call>\n<function=now>\n</function>\n</tool_call>", {{"now", "{}"}});
  expect_calls("qwen3_coder", "<function=f>\n<parameter=a>\nx < 1\n\n</parameter>\n</function>",
               {{"f", "{\"a\": \"x < 1\\n\"}"}});
  expect_calls("qwen3_coder", "<tool_call><function=f><parameter=a>1</parameter></tool_call>",
               {{"f", "{\"a\": 1}"}});
  expect_content("qwen3_coder", "<tool_call>\n{\"name\": \"f\"}</tool_call>");
  expect_broken_call("qwen3_coder", "<tool_call>\n<function=f>\n<parameter=a>\n1", {"f", ""},
                     "<parameter=a>\n1");
  expect_calls("seed_oss",
               "<seed:tool_call>\n<function=f>\n<parameter=a>7</parameter>\n</function>\n</seed:tool_call>",
               {{"f", "{\"a\": 7}"}});
}

TEST(ToolCallsTest, Glm) {
  expect_calls("glm45",
               "Hm.\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Rome</"
               "arg_value>\n<arg_key>days</arg_key>\n"
               "<arg_value>2</arg_value>\n</tool_call>\n<tool_call>now\n</tool_call>",
               {{"get_weather", "{\"city\": \"Rome\", \"days\": 2}"}, {"now", "{}"}}, "Hm.");
  expect_calls("glm45", "<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>",
               {{"f", "{\"a\": 1}"}});
}

TEST(ToolCallsTest, Llama) {
  expect_calls("llama3_json", "{\"name\": \"f\", \"parameters\": {\"a\": 1}}", {{"f", "{\"a\": 1}"}});
  expect_calls("llama3_json",
               "<|python_tag|>{\"type\": \"function\", \"name\": \"f\", \"parameters\": {\"a\": 1}}",
               {{"f", "{\"a\": 1}"}});
  expect_calls("llama3_json",
               "{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"now\", \"parameters\": {}}",
               {{"f", "{}"}, {"now", "{}"}});
  for (const char* text :
       {"{\"name\": \"Bob\", \"parameters\": {}}", "{\"a\": 1}", "Use {\"name\": \"f\", \"parameters\": {}}",
        "{", "{\"name\": \"f\"", "plain", "<|python_tag|>print(1)"}) {
    expect_content("llama3_json", text);
  }
}

TEST(ToolCallsTest, Pythonic) {
  expect_calls("pythonic", "[f(a=1), get_weather(city='Rome', days=2)]",
               {{"f", "{\"a\":1}"}, {"get_weather", "{\"city\":\"Rome\",\"days\":2}"}});
  expect_calls("pythonic", "<|python_tag|>[now()]", {{"now", "{}"}});
  for (const char* text : {"[1] is a list", "[g(a=1)]", "[f(a=", "[]", "[f(1)]", "see [f(a=1)]"}) {
    expect_content("pythonic", text);
  }
  expect_calls("lfm2", "<|tool_call_start|>[f(a=\")\")]<|tool_call_end|>Done", {{"f", "{\"a\":\")\"}"}},
               "Done");
}

TEST(ToolCallsTest, Mistral) {
  for (const char* parser : {"mistral"}) {
    expect_calls(
        parser,
        "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": 1}}, {\"name\": \"g\", \"arguments\": {}}]",
        {{"f", "{\"a\": 1}"}, {"g", "{}"}});
    expect_calls(parser, "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"id\": \"abcdefghi\"}]",
                 {{"f", "{\"a\": 1}"}});
    expect_calls(parser, "Ok[TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]g[CALL_ID]abcdefghi[ARGS]{}",
                 {{"f", "{\"a\": 1}"}, {"g", "{}"}}, "Ok");
    expect_content(parser, "[TOOL_CALLS] none of them");
  }
  const ParsedOutput output = parse_output(parsing_for("mistral"), "[TOOL_CALLS]f[ARGS]{}");
  EXPECT_EQ(output.ids.at(0).size(), 9u);
}

TEST(ToolCallsTest, DeepSeek) {
  expect_calls("deepseek_v3",
               "Ok<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": "
               "1}\n```<｜tool▁call▁end｜>\n"
               "<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```<｜tool▁call▁end｜><"
               "｜tool▁calls▁end｜>",
               {{"f", "{\"a\": 1}"}, {"now", "{}"}}, "Ok");
  expect_calls("deepseek_v31",
               "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": "
               "1}<｜tool▁call▁end｜><｜tool▁call▁begin｜>now"
               "<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
               {{"f", "{\"a\": 1}"}, {"now", "{}"}});
  expect_content("deepseek_v31", "<｜tool▁calls▁begin｜>nothing");
}

TEST(ToolCallsTest, OtherFormats) {
  expect_calls("granite", "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]",
               {{"f", "{\"a\": 1}"}});
  expect_calls("phi4_mini_json", "functools[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]",
               {{"f", "{\"a\": 1}"}});
  expect_calls("phi4_mini_json", "<|tool_call|>[{\"name\": \"f\", \"arguments\": {}}]<|/tool_call|>",
               {{"f", "{}"}});
  expect_content("phi4_mini_json", "import functools");
  expect_calls("command_r",
               "Action: ```json\n[\n    {\n        \"tool_name\": \"f\",\n        \"parameters\": {\"a\": "
               "1}\n    }\n]\n```",
               {{"f", "{\"a\": 1}"}});
  expect_content("command_r", "Action: none");
  expect_calls(
      "command_r7b",
      "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\": {\"a\": 1}},\n"
      "    {\"tool_call_id\": \"1\", \"tool_name\": \"now\", \"parameters\": {}}\n]<|END_ACTION|>",
      {{"f", "{\"a\": 1}"}, {"now", "{}"}});
  expect_calls("functionary", "<function=f>{\"a\": 1}</function><function=now>{}</function>",
               {{"f", "{\"a\": 1}"}, {"now", "{}"}});
  expect_calls(
      "minimax",
      "<tool_calls>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n{\"name\": \"now\", \"arguments\": {}}\n"
      "</tool_calls>",
      {{"f", "{\"a\": 1}"}, {"now", "{}"}});
  expect_calls("apertus", "<|tools_prefix|>[{\"f\": {\"a\": 1}}, {\"now\": {}}]<|tools_suffix|>",
               {{"f", "{\"a\": 1}"}, {"now", "{}"}});
  expect_calls("json", "{\"name\": \"f\", \"arguments\": {\"a\": 1}}", {{"f", "{\"a\": 1}"}});
}

TEST(ToolCallsTest, Kimi) {
  const std::string text =
      "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"a\": "
      "1}<|tool_call_end|>"
      "<|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_"
      "end|>";
  const ParsedOutput output = parse_output(parsing_for("kimi_k2"), text);
  EXPECT_EQ(output.calls, (Calls{{"f", "{\"a\": 1}"}, {"now", "{}"}}));
  EXPECT_EQ(output.ids, (std::vector<std::string>{"functions.f:0", "functions.now:1"}));
  EXPECT_EQ(output.content, "");
}

// Whatever the text, nothing crashes, pieces don't matter, and text without a call comes back whole.
TEST(ToolCallsTest, TornTexts) {
  const std::vector<std::string> texts = {
      "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, {}], \"b\": \"x\"}}\n</tool_call>",
      "[TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}]",
      "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": "
      "1}\n```<｜tool▁call▁end｜>",
      "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>",
      "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
      "[f(a=1, b='x'), now()]"};
  for (const char* parser : {"hermes", "mistral", "deepseek_v3", "qwen3_coder", "glm45", "pythonic",
                             "llama3_json", "kimi_k2", "apertus", "command_r", "functionary"}) {
    for (const std::string& text : texts) {
      for (size_t gap = 0; gap + 3 < text.size(); gap += 5) {
        std::string torn = text;
        torn.erase(gap, 3);
        const ParsedOutput output = parse_output(parsing_for(parser), torn);
        if (output.calls.empty()) {
          EXPECT_EQ(output.content, torn) << parser;
        }
      }
    }
  }
}

}  // namespace
}  // namespace pagoda::openai
