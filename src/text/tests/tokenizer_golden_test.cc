// Every stored case of every golden tokenizer: ids, streamed pieces, round trips.
#include <gtest/gtest.h>

#include "text/tests/text_fixtures.h"

namespace pagoda::text {
namespace {

class TokenizerGolden : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const auto shared = testing_support::shared_dir();
    if (!shared) GTEST_SKIP() << "the folder `shared` is not here";
    tokenizer_ = golden_tokenizer(GetParam());
    if (tokenizer_ == nullptr) GTEST_SKIP() << "the tokenizer " << GetParam() << " (or xz) is not here";
    golden_ = read_json(*shared / "golden" / "tok" / (std::string(GetParam()) + ".json"));
    for (const auto& row : golden_["cases"]) cases_.push_back(row);
    // transformers and llama.cpp disagree on these; a tokenizer.json is to be read as transformers does.
    for (const auto& row : golden_["disputed"]) cases_.push_back(row);
    ASSERT_GT(cases_.size(), 180u);
  }

  std::shared_ptr<const Tokenizer> tokenizer_;
  nlohmann::ordered_json golden_;
  std::vector<nlohmann::ordered_json> cases_;
};

TEST_P(TokenizerGolden, ids_are_exact) {
  for (const auto& row : cases_) {
    const std::string text = row["s"];
    const EncodeOptions parsed{.add_special_tokens = false, .parse_special_tokens = true};
    const EncodeOptions plain{.add_special_tokens = false, .parse_special_tokens = false};
    EXPECT_EQ(encode(*tokenizer_, text, parsed), row["parsed"].get<std::vector<int>>()) << row["s"];
    EXPECT_EQ(encode(*tokenizer_, text, plain), row["plain"].get<std::vector<int>>()) << row["s"];
  }
  EXPECT_EQ(tokenizer_->vocab_size(), golden_["vocab_size"].get<int64_t>());
}

TEST_P(TokenizerGolden, streamed_pieces_are_exact) {
  for (const auto& row : cases_) {
    const auto ids = row["parsed"].get<std::vector<int>>();
    const auto expected = row["pieces"].get<std::vector<std::string>>();
    const auto pieces = stream_pieces(*tokenizer_, ids);
    EXPECT_EQ(pieces, expected) << row["s"];
    auto decoded = tokenizer_->decode(to_ids(ids), false);
    ASSERT_TRUE(decoded.has_value());
    EXPECT_EQ(*decoded, join(expected)) << row["s"];
    EXPECT_EQ(*decoded == row["s"].get<std::string>(), row["roundtrip"].get<bool>()) << row["s"];
  }
}

// token_bytes, put together, is the text, apart from the space that SentencePiece vocabularies put in front.
TEST_P(TokenizerGolden, token_bytes_add_up_to_the_text) {
  for (const auto& row : cases_) {
    std::string bytes;
    for (const TokenId id : to_ids(row["parsed"].get<std::vector<int>>()))
      bytes += tokenizer_->token_bytes(id);
    const std::string text = join(row["pieces"].get<std::vector<std::string>>());
    if (bytes != text) {
      EXPECT_EQ(bytes, " " + text) << row["s"];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerGolden,
                         testing::Values("bpe_gpt2", "bpe_l3", "bpe_qwen", "spm_meta", "spm_norm", "smollm2",
                                         "qwen25coder", "gemma3"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace pagoda::text
