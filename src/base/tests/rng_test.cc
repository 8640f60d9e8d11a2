#include "base/rng.h"

#include <gtest/gtest.h>

#include <set>

namespace pagoda {
namespace {

// Known answers of the reference implementation (Random123, kat_vectors, philox4x32-10).
TEST(RngTest, PhiloxKnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, 0),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, 0xffffffffffffffff),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RngTest, UniformIsAPureFunctionInsideTheOpenInterval) {
  std::set<double> seen;
  double sum = 0;
  for (uint64_t i = 0; i < 10000; ++i) {
    const double u = uniform01(42, 3, i);
    EXPECT_GT(u, 0.0);
    EXPECT_LT(u, 1.0);
    EXPECT_EQ(u, uniform01(42, 3, i));
    sum += u;
    seen.insert(u);
  }
  EXPECT_EQ(seen.size(), 10000u);
  EXPECT_NEAR(sum / 10000, 0.5, 0.02);  // 7 standard deviations of the mean
  EXPECT_NE(uniform01(42, 3, 0), uniform01(43, 3, 0));
  EXPECT_NE(uniform01(42, 3, 0), uniform01(42, 4, 0));
}

}  // namespace
}  // namespace pagoda
