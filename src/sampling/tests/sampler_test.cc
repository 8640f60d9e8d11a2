#include "sampling/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/rng.h"

namespace pagoda::sampling {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> random_row(size_t n, uint64_t seed) {
  std::vector<float> row(n);
  for (size_t i = 0; i < n; ++i) row[i] = static_cast<float>(12 * uniform01(seed, 9, i) - 6);
  return row;
}

int32_t draw(std::vector<float> row, const SamplingParams& params, const TokenHistory& history = {},
             uint32_t choice = 0) {
  Sampler sampler(static_cast<int64_t>(row.size()));
  return sampler.sample(row, params, history, choice).token.value;
}

std::vector<float> distribution(std::vector<float> row, const SamplingParams& params) {
  Sampler sampler(static_cast<int64_t>(row.size()));
  sampler.distribution(row, params, {});
  return row;
}

size_t support_size(const std::vector<float>& row) {
  return row.size() - static_cast<size_t>(std::count(row.begin(), row.end(), 0.0f));
}

SamplingParams with_temperature(float temperature) {
  SamplingParams params;
  params.temperature = temperature;
  return params;
}

TEST(SamplerTest, GreedyTakesTheLowestIdOnATie) {
  for (const float temperature : {0.0f, 1e-6f, 9e-6f}) {
    EXPECT_EQ(draw({1, 5, -3, 5, 2}, with_temperature(temperature)), 1);
  }
  EXPECT_EQ(distribution({1, 5, -3, 5, 2}, with_temperature(0)), (std::vector<float>{0, 1, 0, 0, 0}));
}

TEST(SamplerTest, TopKOneEqualsGreedyAtAnyTemperature) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<float> row = random_row(1003, seed);
    SamplingParams params = with_temperature(2.0f);
    params.top_k = 1;
    params.seed = seed;
    EXPECT_EQ(draw(row, params), draw(row, with_temperature(0.0f)));
  }
}

TEST(SamplerTest, TopPBoundaries) {
  const std::vector<float> row = {std::log(0.5f), std::log(0.25f), std::log(0.125f), std::log(0.125f)};
  const std::vector<std::pair<float, size_t>> cases = {
      {0.5f, 1}, {0.6f, 2}, {0.75f, 2}, {0.76f, 3}, {1.0f, 4}};
  for (const auto& [top_p, kept] : cases) {
    SamplingParams params;
    params.top_p = top_p;
    EXPECT_EQ(support_size(distribution(row, params)), kept) << top_p;
  }
}

TEST(SamplerTest, MinPIsRelativeToTheTopAfterTemperature) {
  const std::vector<float> row = {std::log(0.5f), std::log(0.25f), std::log(0.125f), std::log(0.125f)};
  const std::vector<std::pair<float, size_t>> cases = {{0.0f, 4}, {0.25f, 4}, {0.26f, 2},
                                                       {0.5f, 2}, {0.51f, 1}, {1.0f, 1}};
  for (const auto& [min_p, kept] : cases) {
    SamplingParams params;
    params.min_p = min_p;
    EXPECT_EQ(support_size(distribution(row, params)), kept) << min_p;
  }
  SamplingParams params = with_temperature(2.0f);  // the ratios become 1, .707, .5, .5
  params.min_p = 0.6f;
  EXPECT_EQ(support_size(distribution(row, params)), 2u);
}

TEST(SamplerTest, TopKKeepsTiesAndIgnoresALargeK) {
  const std::vector<float> row = {1, 3, 3, 3, -2, 5};
  for (const auto& [k, kept] : std::vector<std::pair<int64_t, size_t>>{
           {1, 1}, {2, 4}, {4, 4}, {5, 5}, {6, 6}, {100, 6}, {0, 6}, {-1, 6}}) {
    SamplingParams params;
    params.top_k = k;
    EXPECT_EQ(support_size(distribution(row, params)), kept) << k;
  }
}

TEST(SamplerTest, TopPCountsTheShareOfWhatTopKLeft) {
  // After top_k 2 the shares are 2/3 and 1/3, so that .6 leaves one where .6 of all would leave two.
  const std::vector<float> row = {std::log(0.5f), std::log(0.25f), std::log(0.15f), std::log(0.1f)};
  SamplingParams params;
  params.top_p = 0.6f;
  EXPECT_EQ(support_size(distribution(row, params)), 2u);
  params.top_k = 2;
  EXPECT_EQ(support_size(distribution(row, params)), 1u);
}

TEST(SamplerTest, BiasDecides) {
  const std::vector<float> row = random_row(300, 4);
  const int32_t best = draw(row, with_temperature(0));
  SamplingParams params = with_temperature(0);
  params.logit_bias = {{TokenId{best}, -100.0f}};
  EXPECT_NE(draw(row, params), best);
  params = with_temperature(1.0f);
  params.logit_bias = {{TokenId{77}, 100.0f}};
  for (params.seed = 0; params.seed < 20; ++params.seed) EXPECT_EQ(draw(row, params), 77);
}

TEST(SamplerTest, ADrawIsAPureFunctionOfSeedChoiceAndPosition) {
  const std::vector<float> row = random_row(4000, 8);
  const std::vector<TokenId> tokens(40, TokenId{3});
  SamplingParams params;
  params.seed = 99;
  Sampler used(4000);
  std::vector<int32_t> drawn;
  for (size_t position = 0; position < tokens.size(); ++position) {
    const TokenHistory history{{}, std::span(tokens).first(position)};
    std::vector<float> copy = row;
    drawn.push_back(used.sample(copy, params, history, 2).token.value);
    // A fresh sampler and any prompt give the same draw, as after a preemption.
    EXPECT_EQ(draw(row, params, TokenHistory{tokens, history.output}, 2), drawn.back());
  }
  const auto distinct = [](std::vector<int32_t> v) {
    std::sort(v.begin(), v.end());
    return std::unique(v.begin(), v.end()) - v.begin();
  };
  EXPECT_GT(distinct(drawn), 30);  // positions draw independently
  std::vector<int32_t> by_choice, by_seed;
  for (uint32_t i = 0; i < 40; ++i) {
    by_choice.push_back(draw(row, params, {}, i));
    SamplingParams other = params;
    other.seed = i;
    by_seed.push_back(draw(row, other));
  }
  EXPECT_GT(distinct(by_choice), 30);
  EXPECT_GT(distinct(by_seed), 30);
}

TEST(SamplerTest, LogprobsDoNotChangeTheDraw) {
  const std::vector<float> row = random_row(500, 21);
  SamplingParams params;
  params.top_p = 0.9f;
  for (params.seed = 0; params.seed < 50; ++params.seed) {
    params.num_logprobs = -1;
    const int32_t plain = draw(row, params);
    params.num_logprobs = 5;
    EXPECT_EQ(draw(row, params), plain);
  }
}

TEST(SamplerTest, LogprobsAreThoseOfTheRawLogits) {
  std::vector<float> row = {0, 1, 2, 3};
  SamplingParams params = with_temperature(0.3f);
  params.allowed_token_ids = {TokenId{1}};
  params.num_logprobs = 2;
  Sampler sampler(4);
  const SampledToken sampled = sampler.sample(row, params, {}, 0);
  const double log_sum = std::log(1 + std::exp(1) + std::exp(2) + std::exp(3));
  EXPECT_EQ(sampled.token, TokenId{1});
  EXPECT_NEAR(sampled.logprob, 1 - log_sum, 1e-5);
  EXPECT_EQ(sampled.rank, 3);
  ASSERT_EQ(sampled.top.size(), 2u);
  EXPECT_EQ(sampled.top[0].token, TokenId{3});
  EXPECT_EQ(sampled.top[1].token, TokenId{2});
  EXPECT_NEAR(sampled.top[0].logprob, 3 - log_sum, 1e-5);
}

// The statistic sum (observed - expected)^2 / expected has mean V - 1 and variance 2 (V - 1) + (sum 1/p - V^2
// - 2 V + 2) / N; the seed is fixed, so that five standard deviations are no chance failure but room for
// another, equally good, seed.
void expect_frequencies(const std::vector<float>& row, SamplingParams params, int draws) {
  const std::vector<float> want = distribution(row, params);
  std::vector<int> count(row.size());
  Sampler sampler(static_cast<int64_t>(row.size()));
  params.seed = 20240607;
  for (int i = 0; i < draws; ++i) {
    std::vector<float> copy = row;
    ++count[static_cast<size_t>(sampler.sample(copy, params, {}, static_cast<uint32_t>(i)).token.value)];
  }
  double statistic = 0, inverse_sum = 0, cells = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    const double p = static_cast<double>(want[i]), expected = p * draws;
    if (p == 0) {
      EXPECT_EQ(count[i], 0) << "token " << i;
      continue;
    }
    EXPECT_LE(std::abs(count[i] - expected), 5 * std::sqrt(expected * (1 - p)) + 1) << "token " << i;
    statistic += (count[i] - expected) * (count[i] - expected) / expected;
    inverse_sum += 1 / p;
    cells += 1;
  }
  const double variance = 2 * (cells - 1) + (inverse_sum - cells * cells - 2 * cells + 2) / draws;
  EXPECT_LE(std::abs(statistic - (cells - 1)), 5 * std::sqrt(std::max(variance, 0.0)) + 1e-9);
}

TEST(SamplerTest, FrequenciesFollowTheDistribution) {
  const std::vector<float> row = {0.0f, 1.0f, 0.5f, -0.5f, 2.0f, 1.5f, -1.0f, 0.25f};
  expect_frequencies(row, with_temperature(1.0f), 40000);
  expect_frequencies(row, with_temperature(0.5f), 40000);
  SamplingParams params = with_temperature(1.3f);
  params.top_p = 0.8f;
  expect_frequencies(row, params, 40000);
  params.top_k = 3;
  expect_frequencies(row, params, 40000);
}

TEST(SamplerTest, FrequenciesFollowTheDistributionAcrossBlocks) {
  std::vector<float> row(2600, -kInf);
  for (size_t i = 0; i < row.size(); i += 137) row[i] = static_cast<float>(i % 5) * 0.4f;
  expect_frequencies(row, with_temperature(1.0f), 20000);
  SamplingParams params = with_temperature(1.0f);
  params.top_p = 0.7f;
  expect_frequencies(row, params, 20000);
}

TEST(SamplerTest, BrokenLogitsStillGiveAToken) {
  SamplingParams allowed;
  allowed.allowed_token_ids = {TokenId{3}, TokenId{2}};
  for (const float temperature : {0.0f, 1.0f}) {
    allowed.temperature = temperature;
    const SamplingParams free = with_temperature(temperature);
    EXPECT_EQ(draw({kNan, kNan, kNan, kNan}, free), 0);
    EXPECT_EQ(draw({-kInf, -kInf, -kInf, -kInf}, free), 0);
    EXPECT_EQ(draw({-kInf, kNan, kNan, -kInf}, allowed), 2);
    EXPECT_EQ(draw({1, 1, -kInf, -kInf}, allowed), 2);
    EXPECT_EQ(draw({kNan, -kInf, -50, kNan}, free), 2);
    EXPECT_EQ(draw({kNan, 1, kInf, -kInf}, free), 2);
  }
  const std::vector<float> row = distribution({kNan, 1, kInf, kInf}, with_temperature(1.0f));
  EXPECT_EQ(row, (std::vector<float>{0, 0, 0.5f, 0.5f}));
}

TEST(SamplerTest, ExtremeParametersStillGiveAToken) {
  const std::vector<TokenId> output = {TokenId{0}, TokenId{1}, TokenId{1}};
  const TokenHistory history{output, output};
  for (const float extreme : {0.0f, kInf, -kInf, kNan, std::numeric_limits<float>::max(), 1e-45f}) {
    for (const float temperature : {0.0f, 1.01e-5f, 1.0f, 999999.0f}) {
      SamplingParams params = with_temperature(temperature);
      params.repetition_penalty = extreme;
      params.frequency_penalty = extreme;
      params.presence_penalty = extreme;
      params.logit_bias = {{TokenId{2}, extreme}};
      params.min_p = 1.0f;
      params.top_k = 2;
      params.top_p = 1e-9f;
      const int32_t token = draw({3e38f, -3e38f, 0.0f, kNan, -kInf}, params, history);
      EXPECT_GE(token, 0);
      EXPECT_LT(token, 3) << "extreme " << extreme << " temperature " << temperature;
    }
  }
}

TEST(SamplerTest, DistributionSumsToOneUnderRandomParameters) {
  for (uint64_t i = 0; i < 300; ++i) {
    const auto r = [i](uint32_t stream) { return static_cast<float>(uniform01(7, stream, i)); };
    SamplingParams params = with_temperature(0.05f + 2 * r(0));
    params.top_p = 0.01f + 0.99f * r(1);
    params.min_p = r(2) * r(2) * r(2);
    params.top_k = static_cast<int64_t>(r(3) * 3000);
    const std::vector<float> row = distribution(random_row(2500, i), params);
    const double sum = std::accumulate(row.begin(), row.end(), 0.0);
    EXPECT_NEAR(sum, 1.0, 1e-4);  // 2500 roundings of 2^-24 each, all one way at worst
    EXPECT_GE(support_size(row), 1u);
  }
}

TEST(Sampler, TheMaskOutranksTheParametersAndLeavesLogprobsAlone) {
  Sampler sampler(40);
  std::vector<float> logits(40, 0.0f);
  logits[3] = 5.0f;
  const std::vector<float> raw = logits;
  const std::vector<uint32_t> mask = {1u << 7, 1u << 2};  // ids 7 and 34
  SamplingParams params;
  params.temperature = 0.0f;
  params.num_logprobs = 1;
  params.logit_bias = {{TokenId{3}, 100.0f}, {TokenId{34}, 1.0f}};
  const SampledToken greedy = sampler.sample(logits, params, {}, 0, mask);
  EXPECT_EQ(greedy.token, TokenId{34});
  EXPECT_EQ(greedy.logprob, score_token(raw, TokenId{34}, 1).logprob);
  EXPECT_EQ(greedy.top.front().token, TokenId{3});

  params.temperature = 1.0f;
  params.logit_bias.clear();
  for (uint64_t seed = 0; seed < 50; ++seed) {
    logits = raw;
    params.seed = seed;
    const TokenId token = sampler.sample(logits, params, {}, 0, mask).token;
    EXPECT_TRUE(token == TokenId{7} || token == TokenId{34}) << token.value;
  }

  params.allowed_token_ids = {TokenId{1}};  // contradicts the mask
  logits = raw;
  EXPECT_EQ(sampler.sample(logits, params, {}, 0, mask).token, TokenId{7});
}

}  // namespace
}  // namespace pagoda::sampling
