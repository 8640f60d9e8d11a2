#include "service/prompt_encoder.h"

#include <gtest/gtest.h>

#include "scripted/scripted_tokenizer.h"

namespace pagoda::service {
namespace {

constexpr const char* kTemplate =
    "{% for m in messages %}<|im_start|>{{ m.content | trim }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}";

class PromptEncoderTest : public testing::Test {
 protected:
  PromptEncoderTest() {
    auto compiled = text::ChatTemplate::compile(kTemplate);
    EXPECT_TRUE(compiled);
    template_.emplace(std::move(*compiled));
  }

  Result<text::RenderedPrompt> encode(const Prompt& prompt) {
    return PromptEncoder(tokenizer_, &*template_).encode(prompt, tokenizer_.vocab_size(), true);
  }

  scripted::ScriptedTokenizer tokenizer_{std::make_shared<scripted::ScriptTable>(), true};
  std::optional<text::ChatTemplate> template_;
};

TEST_F(PromptEncoderTest, TextIdsAndChat) {
  EXPECT_EQ(encode(TextPrompt{"ab"})->ids.size(), 3u);
  EXPECT_EQ(encode(TextPrompt{"ab", false})->ids.size(), 2u);
  EXPECT_EQ(encode(std::vector<TokenId>{TokenId{9}})->ids.size(), 1u);
  EXPECT_FALSE(encode(std::vector<TokenId>{TokenId{1 << 20}}));
  const auto chat = encode(ChatPrompt{R"({"messages":[{"content":"hi"}],"add_generation_prompt":true})"});
  ASSERT_TRUE(chat);
  EXPECT_EQ(chat->text, "<|im_start|>hi<|im_end|><|assistant|>");
  EXPECT_EQ(chat->ids.size(), 5u);
}

TEST_F(PromptEncoderTest, ContinuesTheFinalMessage) {
  const auto encoded = encode(
      ChatPrompt{R"({"messages":[{"content":"q"},{"content":"The answer"}],"continue_final_message":true,)"
                 R"("add_generation_prompt":false})"});
  ASSERT_TRUE(encoded);
  EXPECT_EQ(encoded->text, "<|im_start|>q<|im_end|><|im_start|>The answer");
  EXPECT_EQ(tokenizer_.decode(encoded->ids, false).value(), encoded->text);
}

TEST_F(PromptEncoderTest, ContinuationFollowsATrimmingTemplate) {
  const auto encoded = encode(ChatPrompt{R"({"messages":[{"content":"a "}],"continue_final_message":true})"});
  ASSERT_TRUE(encoded);
  EXPECT_EQ(encoded->text, "<|im_start|>a");
}

TEST_F(PromptEncoderTest, NothingToContinue) {
  for (const char* context : {R"({"messages":[],"continue_final_message":true})",
                              R"({"messages":[{"content":5}],"continue_final_message":true})"}) {
    const auto encoded = encode(ChatPrompt{context});
    ASSERT_FALSE(encoded);
    EXPECT_EQ(encoded.error().param, "continue_final_message");
  }
}

TEST_F(PromptEncoderTest, CertainExcess) {
  const PromptEncoder encoder(tokenizer_, &*template_);
  // The longest token is <|assistant|>, 13 bytes.
  EXPECT_EQ(*encoder.certain_excess(TextPrompt{std::string(130, 'a')}, 10), 0);
  EXPECT_EQ(*encoder.certain_excess(TextPrompt{std::string(131, 'a')}, 10), 11);
  EXPECT_EQ(*encoder.certain_excess(std::vector<TokenId>(11), 10), 11);
  EXPECT_EQ(*encoder.certain_excess(std::vector<TokenId>(10), 10), 0);
  // A template may leave most of its context out.
  const std::string unused = R"({"messages":[{"content":"a"}],"unused":")" + std::string(5000, 'u') + R"("})";
  EXPECT_EQ(*encoder.certain_excess(ChatPrompt{unused}, 10), 0);
  const std::string used = R"({"messages":[{"content":")" + std::string(5000, 'u') + R"("}]})";
  EXPECT_GT(*encoder.certain_excess(ChatPrompt{used}, 10), 10);
}

}  // namespace
}  // namespace pagoda::service
