#include "cli/eval_score.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace pagoda::cli {
namespace {

using testing::ElementsAre;

// Logits of these probabilities, moved by a constant, which must not matter.
std::vector<float> logits_of(const std::vector<double>& probabilities, double shift) {
  std::vector<float> row;
  for (const double p : probabilities) row.push_back(static_cast<float>(std::log(p) + shift));
  return row;
}

std::vector<TokenId> ids(std::initializer_list<int32_t> values) {
  std::vector<TokenId> tokens;
  for (const int32_t value : values) tokens.push_back({value});
  return tokens;
}

TEST(EvalScoreTest, KlAndLikelihoodOfARow) {
  const auto p = logits_of({0.5, 0.25, 0.25}, 3), q = logits_of({0.25, 0.5, 0.25}, -40);
  const RowScore score = score_row(q, p, TokenId{1});
  EXPECT_NEAR(score.nll, std::log(2.0), 1e-5);
  EXPECT_NEAR(score.kl, 0.5 * std::log(2.0) - 0.25 * std::log(2.0), 1e-5);
  EXPECT_FALSE(score.same_top);
  EXPECT_NEAR(token_logprob(p, TokenId{0}), std::log(0.5), 1e-5);
}

TEST(EvalScoreTest, ARowIsNoDistanceFromItself) {
  const std::vector<float> row = {3.25f, -1e4f, 1e4f, 0.1f};
  const RowScore score = score_row(row, row, TokenId{-1});
  EXPECT_EQ(score.kl, 0);
  EXPECT_EQ(score.nll, 0);
  EXPECT_TRUE(score.same_top);
}

TEST(EvalScoreTest, WithoutAReferenceThereIsNoKl) {
  const RowScore score = score_row(logits_of({0.125, 0.875}, 0), {}, TokenId{0});
  EXPECT_NEAR(score.nll, std::log(8.0), 1e-5);
  EXPECT_EQ(score.kl, 0);
}

TEST(EvalScoreTest, SumsOfAText) {
  TextScore score;
  EXPECT_EQ(score.perplexity(), 1);
  EXPECT_EQ(score.kl_p99(), 0);
  for (int i = 1; i <= 200; ++i) {
    score.add({.nll = i <= 100 ? std::log(4.0) : 0, .kl = i / 1000.0, .same_top = i > 50}, i <= 100);
  }
  EXPECT_EQ(score.rows(), 200);
  EXPECT_EQ(score.predicted(), 100);
  EXPECT_NEAR(score.perplexity(), 4, 1e-12);
  EXPECT_NEAR(score.kl_mean(), 0.1005, 1e-12);
  EXPECT_DOUBLE_EQ(score.kl_p99(), 0.198);
  EXPECT_DOUBLE_EQ(score.top1_agreement(), 0.75);
}

TEST(EvalScoreTest, ATextInWindows) {
  const auto tokens = ids({1, 2, 3, 4, 5, 6, 7});
  const auto steps = cut_text(tokens, {.window = 5, .step = 3, .bos = {}});
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[0].position, 0);
  EXPECT_THAT(steps[0].tokens, ElementsAre(TokenId{1}, TokenId{2}, TokenId{3}));
  EXPECT_THAT(steps[0].next, ElementsAre(TokenId{2}, TokenId{3}, TokenId{4}));
  EXPECT_EQ(steps[1].position, 3);
  EXPECT_THAT(steps[1].tokens, ElementsAre(TokenId{4}, TokenId{5}));
  EXPECT_THAT(steps[1].next, ElementsAre(TokenId{5}, TokenId{-1}));
  EXPECT_EQ(steps[2].position, 0);
  EXPECT_THAT(steps[2].tokens, ElementsAre(TokenId{6}, TokenId{7}));
  EXPECT_THAT(steps[2].next, ElementsAre(TokenId{7}, TokenId{-1}));
}

TEST(EvalScoreTest, EveryWindowBeginsWithTheLeadingToken) {
  const auto steps = cut_text(ids({1, 2, 3}), {.window = 3, .step = 8, .bos = TokenId{9}});
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_THAT(steps[0].tokens, ElementsAre(TokenId{9}, TokenId{1}, TokenId{2}));
  EXPECT_THAT(steps[0].next, ElementsAre(TokenId{1}, TokenId{2}, TokenId{-1}));
  EXPECT_THAT(steps[1].tokens, ElementsAre(TokenId{9}, TokenId{3}));
  EXPECT_THAT(steps[1].next, ElementsAre(TokenId{3}, TokenId{-1}));
}

}  // namespace
}  // namespace pagoda::cli
