// Vectors of decoders against transformers: the head times the row of the last token must give the
// reference's logits; other ways of pooling, chunks and batches are held against that row.
#include <gtest/gtest.h>

#include "golden/golden_case.h"
#include "model/decoder_embedder.h"

namespace pagoda::testing_support {
namespace {

using model::Pooling;

constexpr int64_t kMaxTokens = 256;

class EmbeddingTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    dir_ = golden_dir() / "tiny" / GetParam();
    if (!std::filesystem::exists(dir_)) GTEST_SKIP() << dir_ << " is not here";
    HarnessOptions options = exact_options();
    options.max_tokens = kMaxTokens;
    model_ = std::make_unique<ModelHarness>(dir_, options);
    for (const auto& c : read_cases(dir_ / "golden.json", dir_ / "golden.npz")) {
      if (c.ids.size() <= kMaxTokens) cases_.push_back(c);
    }
    ASSERT_FALSE(cases_.empty());
  }

  int64_t width() const { return model_->model().config().hidden_size; }

  std::vector<std::vector<float>> embed(const std::vector<std::vector<TokenId>>& sequences,
                                        const model::PoolingConfig& pooling, int64_t step_tokens) {
    model::DecoderEmbedder embedder(model_->model(), {pooling, step_tokens, kMaxTokens, 4096});
    std::vector<std::vector<float>> vectors(sequences.size(),
                                            std::vector<float>(static_cast<size_t>(width())));
    std::vector<model::EmbedTask> tasks;
    for (size_t i = 0; i < sequences.size(); ++i) tasks.push_back({sequences[i], vectors[i]});
    embedder.embed(tasks);
    return vectors;
  }

  static std::vector<TokenId> tokens(const GoldenCase& c, size_t count) {
    std::vector<TokenId> ids;
    for (size_t i = 0; i < count; ++i) ids.push_back(TokenId{c.ids[i]});
    return ids;
  }

  std::filesystem::path dir_;
  std::unique_ptr<ModelHarness> model_;
  std::vector<GoldenCase> cases_;
};

TEST_P(EmbeddingTest, TheHeadMakesTheReferencesLogitsOfTheLastRow) {
  const auto checkpoint = model::open_checkpoint(dir_.string());
  ASSERT_TRUE(checkpoint);
  const bool tied = checkpoint->config.tied_embeddings;
  const auto head = checkpoint->tensors->matrix(tied ? "model.embed_tokens.weight" : "lm_head.weight",
                                                model_->vocab_size(), width());
  ASSERT_TRUE(head);
  std::vector<float> rows(static_cast<size_t>(model_->vocab_size() * width()));
  (*head)->read_values(0, model_->vocab_size(), rows.data());
  for (const auto& c : cases_) {
    const auto row = embed({tokens(c, c.ids.size())}, {Pooling::kLast, false}, 64).front();
    const auto vocab = static_cast<size_t>(model_->vocab_size());
    const float* const expected = c.logits.data() + c.logits.size() - vocab;
    for (size_t token = 0; token < vocab; ++token) {
      double logit = 0;
      for (size_t k = 0; k < row.size(); ++k) logit += double{rows[token * row.size() + k]} * row[k];
      ASSERT_NEAR(logit, expected[token], 2e-3) << c.ids.size() << " ids, token " << token;
    }
  }
}

TEST_P(EmbeddingTest, MeanAndClsAreOfTheRowsOfAllPrefixes) {
  const GoldenCase& c = cases_.front();
  const size_t count = std::min<size_t>(c.ids.size(), 24);
  std::vector<std::vector<TokenId>> prefixes;
  for (size_t i = 1; i <= count; ++i) prefixes.push_back(tokens(c, i));
  const auto rows = embed(prefixes, {Pooling::kLast, false}, 64);
  EXPECT_EQ(embed({prefixes.back()}, {Pooling::kCls, false}, 7).front(), rows.front());
  const auto mean = embed({prefixes.back()}, {Pooling::kMean, false}, 7).front();
  const auto unit = embed({prefixes.back()}, {Pooling::kMean, true}, 64).front();
  double length = 0;
  for (size_t k = 0; k < mean.size(); ++k) {
    double sum = 0;
    for (const auto& row : rows) sum += row[k];
    EXPECT_EQ(mean[k], static_cast<float>(sum / static_cast<double>(count)));
    length += double{mean[k]} * mean[k];
  }
  for (size_t k = 0; k < mean.size(); ++k) EXPECT_NEAR(unit[k], mean[k] / std::sqrt(length), 1e-6);
}

TEST_P(EmbeddingTest, ChunksAndBatchesChangeNoBit) {
  std::vector<std::vector<TokenId>> sequences;
  for (const auto& c : cases_) sequences.push_back(tokens(c, c.ids.size()));
  sequences.push_back(tokens(cases_.back(), 3));
  for (const Pooling pooling : {Pooling::kLast, Pooling::kMean}) {
    const auto together = embed(sequences, {pooling, true}, 256);
    for (const int64_t step : {1, 5, 64})
      EXPECT_EQ(embed(sequences, {pooling, true}, step), together) << step;
    for (size_t i = 0; i < sequences.size(); ++i) {
      EXPECT_EQ(embed({sequences[i]}, {pooling, true}, 256).front(), together[i]) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, EmbeddingTest,
                         testing::Values("llama-tied-f32", "llama-spm-bias", "mistral-swa", "qwen2", "qwen3",
                                         "gemma3"),
                         [](const auto& test) {
                           std::string name = test.param;
                           for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return name;
                         });

}  // namespace
}  // namespace pagoda::testing_support
