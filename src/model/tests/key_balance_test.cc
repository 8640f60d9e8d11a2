#include "model/key_balance.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace pagoda::model {
namespace {

// Two layers, two kv heads with two queries each, heads of six dimensions of which four turn.
ModelConfig small_config() {
  ModelConfig config;
  config.num_layers = 2;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 6;
  config.rotary_dim = 4;
  return config;
}

using Keys = std::array<float, 12>;
using Queries = std::array<float, 24>;

constexpr Keys kKeys = {100, 2, 3, -4, 1, 8, 1, 1, 0, 1, 1, 0};

Queries ramp() {
  Queries q;
  for (size_t i = 0; i < q.size(); ++i) q[i] = 1 + static_cast<float>(i);
  return q;
}

float score(const Queries& q, const Keys& k, size_t head) {
  float sum = 0;
  for (size_t d = 0; d < 6; ++d) sum += q[head * 6 + d] * k[head / 2 * 6 + d];
  return sum;
}

TEST(KeyBalanceTest, EmptyOrMeasuringItChangesNothing) {
  KeyBalance balance;
  EXPECT_FALSE(balance.is_measuring());
  Queries q = ramp();
  Keys k = kKeys;
  balance.apply(0, q.data(), k.data());
  balance.begin_measuring(small_config());
  EXPECT_TRUE(balance.is_measuring());
  balance.observe(0, k.data());
  balance.apply(0, q.data(), k.data());
  EXPECT_EQ(q, ramp());
  EXPECT_EQ(k, kKeys);
}

TEST(KeyBalanceTest, ChannelsComeCloserAndScoresStay) {
  KeyBalance balance;
  balance.begin_measuring(small_config());
  for (const float sign : {1.0f, -1.0f}) {
    Keys observed = kKeys;
    for (float& value : observed) value *= sign;
    balance.observe(1, observed.data());
  }
  balance.finish_measuring();
  EXPECT_FALSE(balance.is_measuring());
  Queries q = ramp();
  Keys k = kKeys;
  balance.apply(1, q.data(), k.data());
  for (size_t head = 0; head < 4; ++head)
    EXPECT_NEAR(score(q, k, head), score(ramp(), kKeys, head), 1e-5f * std::abs(score(ramp(), kKeys, head)));
  // Channels that turn into each other share a factor, of the length of both; the others have their own.
  const float largest = std::hypot(100.0f, 3.0f);
  EXPECT_NEAR(std::hypot(k[0], k[2]), largest, 1e-3f);
  EXPECT_NEAR(std::hypot(k[1], k[3]), std::sqrt(std::hypot(2.0f, 4.0f) * largest), 1e-3f);
  EXPECT_NEAR(k[0] / k[2], 100.0f / 3, 1e-3f);
  EXPECT_NEAR(k[4], std::sqrt(largest), 1e-3f);
  EXPECT_NEAR(k[5], std::sqrt(8 * largest), 1e-3f);
}

TEST(KeyBalanceTest, UnusedChannelsAndLayersAreBounded) {
  KeyBalance balance;
  balance.begin_measuring(small_config());
  balance.observe(0, kKeys.data());
  balance.finish_measuring();
  Queries q = ramp();
  Keys k = kKeys;
  k[11] = 1;  // was never anything but 0
  balance.apply(0, q.data(), k.data());
  EXPECT_FLOAT_EQ(k[11], 1000);
  q = ramp();
  k = kKeys;
  balance.apply(1, q.data(), k.data());  // nothing was measured of it
  EXPECT_EQ(q, ramp());
  EXPECT_EQ(k, kKeys);
}

}  // namespace
}  // namespace pagoda::model
