#include "service/fim_prompt.h"

#include <gtest/gtest.h>

#include "scripted/scripted_tokenizer.h"

namespace pagoda::service {
namespace {

TEST(FimShares, everything_fits) {
  const FimShares shares = share_fim_budget(30, 10, 40);
  EXPECT_EQ(shares.prefix, 30);
  EXPECT_EQ(shares.suffix, 10);
}

TEST(FimShares, three_quarters_and_one) {
  const FimShares shares = share_fim_budget(1000, 1000, 100);
  EXPECT_EQ(shares.prefix, 75);
  EXPECT_EQ(shares.suffix, 25);
}

TEST(FimShares, what_one_does_not_use_goes_to_the_other) {
  EXPECT_EQ(share_fim_budget(1000, 5, 100).prefix, 95);
  EXPECT_EQ(share_fim_budget(1000, 5, 100).suffix, 5);
  EXPECT_EQ(share_fim_budget(10, 1000, 100).prefix, 10);
  EXPECT_EQ(share_fim_budget(10, 1000, 100).suffix, 90);
}

TEST(FimShares, never_more_than_the_budget_nor_less_than_possible) {
  for (int64_t budget = -1; budget < 12; ++budget) {
    for (int64_t prefix = 0; prefix < 12; ++prefix) {
      for (int64_t suffix = 0; suffix < 12; ++suffix) {
        const FimShares shares = share_fim_budget(prefix, suffix, budget);
        EXPECT_EQ(shares.prefix + shares.suffix, std::min(prefix + suffix, std::max<int64_t>(budget, 0)));
        EXPECT_LE(shares.prefix, prefix);
        EXPECT_LE(shares.suffix, suffix);
        EXPECT_GE(shares.prefix, 0);
        EXPECT_GE(shares.suffix, 0);
      }
    }
  }
}

class FimEncoderTest : public testing::Test {
 protected:
  // One token a byte; <|im_start|> and the like are the control tokens here.
  std::string encode(const FimPrompt& prompt, int64_t max_tokens,
                     const std::string& source = "<|im_start|>{prefix}<|im_end|>{suffix}<|assistant|>") {
    const auto fim = text::FimTemplate::parse(tokenizer_, source);
    EXPECT_TRUE(fim);
    const auto encoded = FimEncoder(tokenizer_, *fim, 13).encode(prompt, max_tokens);
    EXPECT_TRUE(encoded);
    cut_ = encoded->cut;
    size_ = static_cast<int64_t>(encoded->ids.size());
    return *tokenizer_.decode(encoded->ids, false);
  }

  scripted::ScriptedTokenizer tokenizer_{std::make_shared<scripted::ScriptTable>(), true};
  FimCut cut_;
  int64_t size_ = 0;
};

TEST_F(FimEncoderTest, whole) {
  EXPECT_EQ(encode({"abc", "xyz", {}}, 100), "<s><|im_start|>abc<|im_end|>xyz<|assistant|>");
  EXPECT_FALSE(cut_.any());
  EXPECT_EQ(encode({"", "", {}}, 100), "<s><|im_start|><|im_end|><|assistant|>");
}

TEST_F(FimEncoderTest, suffix_first) {
  EXPECT_EQ(encode({"abc", "xyz", {}}, 100, "<|im_end|>{suffix}<|im_start|>{prefix}"),
            "<s><|im_end|>xyz<|im_start|>abc");
}

TEST_F(FimEncoderTest, what_is_nearest_the_cursor_stays) {
  const std::string prefix(500, 'p'), suffix(500, 's');
  EXPECT_EQ(encode({prefix + "abcdef", "xyz" + suffix, {}}, 4 + 8),
            "<s><|im_start|>abcdef<|im_end|>xy<|assistant|>");
  EXPECT_EQ(size_, 12);
  EXPECT_GT(cut_.prefix_tokens, 30);
  EXPECT_GT(cut_.suffix_tokens, 30);
}

TEST_F(FimEncoderTest, cuts_are_counted_in_tokens) {
  EXPECT_EQ(encode({"0123456789", "abcd", {}}, 4 + 8), "<s><|im_start|>456789<|im_end|>ab<|assistant|>");
  EXPECT_EQ(cut_.prefix_tokens, 4);
  EXPECT_EQ(cut_.suffix_tokens, 2);
  EXPECT_EQ(encode({"0123456789", "a", {}}, 4 + 8), "<s><|im_start|>3456789<|im_end|>a<|assistant|>");
  EXPECT_EQ(encode({"01", "abcdefghi", {}}, 4 + 8), "<s><|im_start|>01<|im_end|>abcdef<|assistant|>");
}

TEST_F(FimEncoderTest, characters_are_cut_whole) {
  // é is two tokens; three of eight would begin inside one.
  EXPECT_EQ(encode({"éééé", "", {}}, 4 + 3), "<s><|im_start|>é<|im_end|><|assistant|>");
  EXPECT_EQ(cut_.prefix_tokens, 6);
  EXPECT_EQ(encode({"", "éééé", {}}, 4 + 3), "<s><|im_start|><|im_end|>é<|assistant|>");
  EXPECT_EQ(cut_.suffix_tokens, 6);
}

TEST_F(FimEncoderTest, no_room_at_all) {
  EXPECT_EQ(encode({"abc", "xyz", {}}, 3), "<s><|im_start|><|im_end|><|assistant|>");
  EXPECT_EQ(size_, 4);
}

TEST_F(FimEncoderTest, control_tokens_in_user_text_are_text) {
  encode({"<|im_end|>", "<s>", {{"<|assistant|>", "<|im_start|>"}}}, 1000);
  EXPECT_EQ(size_, 4 + 10 + 3 + 13 + 1 + 12 + 1);
}

TEST_F(FimEncoderTest, files_go_in_front_and_the_earliest_are_dropped_first) {
  const FimPrompt prompt{"P", "S", {{"a.py", "aaaa"}, {"b.py", "bbbb\n"}, {"", "c"}}};
  EXPECT_EQ(encode(prompt, 100), "<s><|im_start|>a.py\naaaa\nb.py\nbbbb\nc\nP<|im_end|>S<|assistant|>");
  EXPECT_FALSE(cut_.any());
  EXPECT_EQ(encode(prompt, 6 + 15), "<s><|im_start|>b.py\nbbbb\nc\nP<|im_end|>S<|assistant|>");
  EXPECT_EQ(cut_.files, 1);
  EXPECT_EQ(encode(prompt, 6 + 11), "<s><|im_start|>c\nP<|im_end|>S<|assistant|>");
  EXPECT_EQ(cut_.files, 2);
  EXPECT_EQ(encode(prompt, 6), "<s><|im_start|>P<|im_end|>S<|assistant|>");
  EXPECT_EQ(cut_.files, 3);
  EXPECT_EQ(cut_.prefix_tokens, 0);
}

TEST_F(FimEncoderTest, files_with_separators) {
  text::FimTokenIds declared;
  declared.prefix = scripted::kTurnStart;
  declared.suffix = scripted::kTurnEnd;
  declared.middle = scripted::kAssistant;
  declared.separator = scripted::kPad;
  const auto fim = text::FimTemplate::detect(tokenizer_, declared);
  ASSERT_TRUE(fim);
  const std::string pad = tokenizer_.token_string(scripted::kPad);
  const auto encoded = FimEncoder(tokenizer_, *fim, 13).encode({"P", "S", {{"a.py", "x"}}}, 100);
  ASSERT_TRUE(encoded);
  EXPECT_EQ(*tokenizer_.decode(encoded->ids, false),
            "<s>" + pad + "a.py\nx\n" + pad + "filename\n<|im_start|>P<|im_end|>S<|assistant|>");
}

}  // namespace
}  // namespace pagoda::service
