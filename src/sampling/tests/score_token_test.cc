#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "sampling/sampler.h"

namespace pagoda::sampling {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(ScoreTokenTest, LogprobRankAndTop) {
  const std::vector<float> row = {2, 0, 3, 2, 1};
  const double log_sum = std::log(2 * std::exp(2) + 1 + std::exp(3) + std::exp(1));
  const SampledToken scored = score_token(row, TokenId{3}, 3);
  EXPECT_EQ(scored.token, TokenId{3});
  EXPECT_NEAR(scored.logprob, 2 - log_sum, 1e-6);
  EXPECT_EQ(scored.rank, 2);
  ASSERT_EQ(scored.top.size(), 3u);
  EXPECT_EQ(scored.top[0].token, TokenId{2});
  EXPECT_EQ(scored.top[1].token, TokenId{0});  // ties by the lower id
  EXPECT_EQ(scored.top[2].token, TokenId{3});
  EXPECT_NEAR(scored.top[0].logprob, 3 - log_sum, 1e-6);
}

TEST(ScoreTokenTest, CountOfAlternatives) {
  const std::vector<float> row = {2, 0, 3, 2, 1};
  EXPECT_TRUE(score_token(row, TokenId{0}, 0).top.empty());
  EXPECT_TRUE(score_token(row, TokenId{0}, -1).top.empty());
  EXPECT_EQ(score_token(row, TokenId{0}, 20).top.size(), 5u);
  const auto all = score_token(row, TokenId{0}, kAllLogprobs).top;
  ASSERT_EQ(all.size(), 5u);
  EXPECT_EQ(all.back().token, TokenId{1});
  double sum = 0;
  for (const TokenLogprob& entry : all) sum += std::exp(static_cast<double>(entry.logprob));
  EXPECT_NEAR(sum, 1.0, 1e-6);
}

TEST(ScoreTokenTest, LargeLogitsDoNotOverflow) {
  const std::vector<float> row = {1000, 999, -1000};
  EXPECT_NEAR(score_token(row, TokenId{0}, 0).logprob, -std::log1p(std::exp(-1.0)), 1e-5);
  EXPECT_NEAR(score_token(row, TokenId{2}, 0).logprob, -2000.3132, 1e-2);
}

TEST(ScoreTokenTest, NeverNan) {
  const std::vector<std::vector<float>> rows = {{kNan, 1, 2},    {kNan, kNan, kNan}, {-kInf, -kInf, -kInf},
                                                {kInf, 1, kNan}, {kInf, kInf, 0},    {-kInf, 0, 0}};
  for (const auto& row : rows) {
    for (int32_t id = 0; id < 3; ++id) {
      const SampledToken scored = score_token(row, TokenId{id}, kAllLogprobs);
      EXPECT_LE(scored.logprob, 0.0f) << row[0] << " token " << id;
      EXPECT_GE(scored.rank, 1);
      EXPECT_LE(scored.rank, 3);
      ASSERT_EQ(scored.top.size(), 3u);
      for (const TokenLogprob& entry : scored.top) EXPECT_LE(entry.logprob, 0.0f) << row[0];
    }
  }
  EXPECT_EQ(score_token(rows[0], TokenId{0}, 0).logprob, -kInf);
  EXPECT_EQ(score_token(rows[0], TokenId{0}, 0).rank, 3);
  EXPECT_NEAR(score_token(rows[0], TokenId{2}, 0).logprob, -std::log1p(std::exp(-1.0)), 1e-6);
  EXPECT_EQ(score_token(rows[3], TokenId{0}, 0).logprob, 0.0f);
}

}  // namespace
}  // namespace pagoda::sampling
