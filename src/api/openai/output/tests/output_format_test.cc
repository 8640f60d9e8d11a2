#include "api/openai/output/output_format.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>

#include "support/shared_data.h"

namespace pagoda::openai {
namespace {

struct Expected {
  const char *tools, *reasoning;
};

// Every template of the golden set.
const std::map<std::string, Expected> kTemplates = {
    {"Apertus-8B-Instruct", {"apertus", "apertus"}},
    {"ByteDance-Seed-OSS", {"seed_oss", "seed_oss"}},
    {"CohereForAI-c4ai-command-r-plus-tool_use", {"command_r", ""}},
    {"CohereForAI-c4ai-command-r7b-12-2024-tool_use", {"command_r7b", "cohere"}},
    {"GLM-4.6", {"glm45", "qwen3"}},
    {"HuggingFaceTB-SmolLM3-3B", {"", "qwen3"}},
    {"LFM2-8B-A1B", {"lfm2", ""}},
    {"MiniMax-M1", {"minimax", ""}},
    {"Mistral-Small-3.2-24B-Instruct-2506", {"mistral", ""}},
    {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", {"hermes", ""}},
    {"Qwen-QwQ-32B", {"hermes", "qwen3"}},
    {"Qwen-Qwen2.5-7B-Instruct", {"hermes", ""}},
    {"Qwen-Qwen3-0.6B", {"hermes", "qwen3"}},
    {"Qwen3-Coder", {"qwen3_coder", ""}},
    {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B", {"deepseek_v3", "qwen3"}},
    {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", {"deepseek_v3", "qwen3"}},
    {"deepseek-ai-DeepSeek-V3.1", {"deepseek_v31", "qwen3"}},
    {"google-gemma-2-2b-it", {"", ""}},
    {"google-gemma-4-31B-it", {"", ""}},
    {"ibm-granite-granite-3.3-2B-Instruct", {"granite", "granite"}},
    {"ibm-granite-granite-4.0", {"hermes", ""}},
    {"meetkai-functionary-medium-v3.1", {"functionary", ""}},
    {"meta-llama-Llama-3.1-8B-Instruct", {"llama3_json", ""}},
    {"meta-llama-Llama-3.2-3B-Instruct", {"llama3_json", ""}},
    {"microsoft-Phi-3.5-mini-instruct", {"", ""}},
    {"mistralai-Mistral-Nemo-Instruct-2407", {"mistral", ""}},
    {"moonshotai-Kimi-K2", {"kimi_k2", ""}},
    {"openai-gpt-oss-120b", {"", ""}},
    {"qwen25coder", {"hermes", ""}},
    {"smollm2", {"", ""}},
    {"unsloth-mistral-Devstral-Small-2507", {"mistral", ""}},
};

TEST(OutputFormatTest, FoundInTheTemplates) {
  const auto shared = testing_support::shared_dir();
  if (!shared) GTEST_SKIP() << "the folder `shared` is not here";
  const auto folder = *shared / "golden" / "chat" / "templates";
  for (const auto& [name, expected] : kTemplates) {
    std::ifstream file(folder / (name + ".jinja"), std::ios::binary);
    ASSERT_TRUE(file) << name;
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const auto format = choose_output_format(text, "", "");
    ASSERT_TRUE(format) << name;
    EXPECT_EQ(format->tools_known ? format->tools.name : "", expected.tools) << name;
    EXPECT_EQ(format->reasoning.empty() ? "" : format->reasoning.front().name, expected.reasoning) << name;
  }
}

TEST(OutputFormatTest, ChosenByName) {
  const auto format = choose_output_format("<tool_call>", "llama4_pythonic", "deepseek_r1");
  ASSERT_TRUE(format);
  EXPECT_EQ(format->tools.name, "pythonic");
  EXPECT_TRUE(format->reasoning.front().implied);
  const auto off = choose_output_format("<tool_call><think>", "none", "none");
  EXPECT_FALSE(off->parse_tools);
  EXPECT_EQ(off->reasoning_syntax(), nullptr);
  const auto same = choose_output_format("[TOOL_CALLS][ARGS]", "mistral", "");
  EXPECT_EQ(same->tools.style, CallStyle::kNamedJson) << "the template knows which form it is";
}

TEST(OutputFormatTest, UnknownNames) {
  const auto tools = choose_output_format("", "hermess", "");
  ASSERT_FALSE(tools);
  EXPECT_NE(tools.error().message.find("--tool-call-parser hermess"), std::string::npos)
      << tools.error().message;
  EXPECT_NE(tools.error().message.find("qwen3_coder"), std::string::npos);
  EXPECT_NE(tools.error().message.find("none"), std::string::npos);
  const auto reasoning = choose_output_format("", "", "deep");
  ASSERT_FALSE(reasoning);
  EXPECT_NE(reasoning.error().message.find("deepseek_r1"), std::string::npos);
}

TEST(OutputFormatTest, WhereReasoningIsOpen) {
  const auto format = choose_output_format("<think>", "", "");
  EXPECT_TRUE(prompt_opens_reasoning(*format, "<|im_start|>assistant\n<think>\n"));
  EXPECT_FALSE(prompt_opens_reasoning(*format, "<|im_start|>user\n<think><|im_start|>assistant\n"));
  EXPECT_FALSE(prompt_opens_reasoning(*format, "<think>\n\n</think>\n\n"));
  EXPECT_TRUE(message_ends_in_reasoning(*format, "<think>so far"));
  EXPECT_FALSE(message_ends_in_reasoning(*format, "<think>so</think> far"));
  EXPECT_FALSE(message_ends_in_reasoning(*format, "far"));
  const auto implied = choose_output_format("", "", "deepseek_r1");
  EXPECT_TRUE(prompt_opens_reasoning(*implied, "assistant:"));
  EXPECT_FALSE(prompt_opens_reasoning(*implied, "<think></think>"));
}

}  // namespace
}  // namespace pagoda::openai
