#include "tensor/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace pagoda {
namespace {

// The value of a binary16 pattern, straight from the definition.
double f16_value(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(Half, EveryF16PatternConvertsExactlyAndBack) {
  for (uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    const auto bits = static_cast<uint16_t>(pattern);
    const float value = f16_to_f32(bits);
    if ((bits & 0x7c00) == 0x7c00) {
      if ((bits & 0x3ff) != 0) {
        EXPECT_TRUE(std::isnan(value)) << bits;
        EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(value)))) << bits;
      } else {
        EXPECT_EQ(value, (bits & 0x8000) != 0 ? -INFINITY : INFINITY);
        EXPECT_EQ(f32_to_f16(value), bits);
      }
      continue;
    }
    ASSERT_EQ(static_cast<double>(value), f16_value(bits)) << bits;
    ASSERT_EQ(f32_to_f16(value), bits) << bits;
  }
}

TEST(Half, F32ToF16RoundsToNearestEvenBetweenAllNeighbours) {
  for (uint32_t pattern = 0; pattern < 0x7bff; ++pattern) {  // positive finite values with a finite successor
    const auto low = static_cast<uint16_t>(pattern), high = static_cast<uint16_t>(pattern + 1);
    const auto middle = static_cast<float>((f16_value(low) + f16_value(high)) / 2);  // exact in float
    const uint16_t even = (low & 1) == 0 ? low : high;
    ASSERT_EQ(f32_to_f16(middle), even) << pattern;
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 0.0f)), low) << pattern;
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, INFINITY)), high) << pattern;
    ASSERT_EQ(f32_to_f16(-middle), even | 0x8000) << pattern;
  }
}

TEST(Half, F32ToF16Limits) {
  EXPECT_EQ(f32_to_f16(65504.0f), 0x7bff);
  EXPECT_EQ(f32_to_f16(std::nextafter(65520.0f, 0.0f)), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(-1e30f), 0xfc00);
  EXPECT_EQ(f32_to_f16(1e-30f), 0);
  EXPECT_EQ(f32_to_f16(-0.0f), 0x8000);
}

TEST(Half, Bf16RoundsToNearestEven) {
  EXPECT_EQ(f32_to_bf16(1.0f), 0x3f80);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808000u)), 0x3f80);  // tie, even below
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f818000u)), 0x3f82);  // tie, even above
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(f32_to_bf16(-INFINITY), 0xff80);
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7fffffffu)))));
  for (uint32_t pattern = 0; pattern < 0x7f80; ++pattern) {
    ASSERT_EQ(f32_to_bf16(bf16_to_f32(static_cast<uint16_t>(pattern))), pattern);
  }
}

}  // namespace
}  // namespace pagoda
