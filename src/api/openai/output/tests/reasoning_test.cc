#include "api/openai/output/tests/parse_output.h"

namespace pagoda::openai {
namespace {

struct Case {
  const char *text, *reasoning, *content;
};

void expect_split(const OutputParsing& parsing, const std::vector<Case>& cases) {
  for (const Case& each : cases) {
    const ParsedOutput output = parse_output(parsing, each.text);
    EXPECT_EQ(output.reasoning, each.reasoning) << each.text;
    EXPECT_EQ(output.content, each.content) << each.text;
  }
}

TEST(ReasoningTest, TagsInTheOutput) {
  expect_split(parsing_for("none", "qwen3"),
               {{"<think>r</think>ans", "r", "ans"},
                {"<think>\nr 1\n\nr 2\n</think>\n\nans\n", "r 1\n\nr 2", "ans\n"},
                {" \n<think>r</think>ans", "r", "ans"},
                {"<think>\n\n</think>\n\nans", "", "ans"},
                {"<think>never ends", "never ends", ""},
                {"<think>r</thin", "r</thin", ""},
                {"<think>r</think>", "r", ""},
                {"<think>a </thinking> b</think>c", "a </thinking> b", "c"},
                {"<thinking>x</thinking>", "", "<thinking>x</thinking>"},
                {"plain <think>text</think>", "", "plain <think>text</think>"},
                {"<think>r</think>a<think>b</think>", "r", "a<think>b</think>"},
                {"<thi", "", "<thi"},
                {"\n\n", "", "\n\n"},
                {"", "", ""},
                {"x</think>y", "", "x</think>y"}});
}

TEST(ReasoningTest, OpenedByThePrompt) {
  OutputParsing parsing = parsing_for("none", "qwen3");
  parsing.starts_in_reasoning = true;
  expect_split(parsing, {{"r</think>\n\nans", "r", "ans"},
                         {"\nr", "r", ""},
                         {"<think>r</think>ans", "r", "ans"},
                         {"say <think> aloud</think>ans", "say <think> aloud", "ans"},
                         {"</think>ans", "", "ans"}});
}

TEST(ReasoningTest, OtherTags) {
  expect_split(parsing_for("none", "mistral"), {{"[THINK]r[/THINK]ans", "r", "ans"}});
  expect_split(parsing_for("none", "cohere"),
               {{"<|START_THINKING|>r<|END_THINKING|><|START_RESPONSE|>ans<|END_RESPONSE|>", "r", "ans"}});
  expect_split(parsing_for("none", "granite"), {{"<think>r</think>\n<response>ans</response>", "r", "ans"},
                                                {"<think>r</think>ans", "r", "ans"}});
  expect_split(parsing_for("none", "seed_oss"), {{"<seed:think>r</seed:think>ans", "r", "ans"}});
}

TEST(ReasoningTest, CanBeDropped) {
  OutputParsing parsing = parsing_for("none", "qwen3");
  parsing.include_reasoning = false;
  expect_split(parsing, {{"<think>r</think>ans", "", "ans"}});
}

TEST(ReasoningTest, CallsBehindIt) {
  const std::string text =
      "<think>use <tool_call> here</think>\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": "
      "1}}\n</tool_call>";
  const ParsedOutput output = parse_output(parsing_for("hermes", "qwen3"), text);
  EXPECT_EQ(output.reasoning, "use <tool_call> here");
  EXPECT_EQ(output.content, "");
  EXPECT_EQ(output.calls, (std::vector<ParsedCall>{{"f", "{\"a\": 1}"}}));
  EXPECT_TRUE(output.made_calls);
}

}  // namespace
}  // namespace pagoda::openai
