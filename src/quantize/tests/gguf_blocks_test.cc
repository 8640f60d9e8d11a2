// Blocks against our own reader of them.
#include "model/loader/gguf_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/rng.h"
#include "quantize/gguf/ggml_types.h"
#include "tensor/half.h"

namespace pagoda::quantize {
namespace {

constexpr int64_t kDepth = 512;

std::vector<float> decode(GgmlType type, const std::vector<uint8_t>& bytes) {
  const model::BlockFormat& format = *model::find_block_format(static_cast<uint32_t>(type));
  const int64_t blocks = kDepth / format.block_elements;
  const int group = format.scheme.group_size;
  std::vector<uint8_t> codes(kDepth);
  std::vector<float> scales(static_cast<size_t>(kDepth / group)), offsets(scales.size()), values;
  format.read_codes(bytes.data(), blocks, codes.data());
  format.read_scales(bytes.data(), blocks, scales.data(), offsets.data());
  for (size_t i = 0; i < codes.size(); ++i) {
    const size_t g = i / static_cast<size_t>(group);
    const float offset = format.scheme.has_offsets ? offsets[g] : 0.0f;
    values.push_back(scales[g] * static_cast<float>(codes[i] - format.scheme.zero_point) + offset);
  }
  return values;
}

std::vector<float> round_trip(GgmlType type, const std::vector<float>& values) {
  std::vector<uint8_t> bytes(row_bytes(type, kDepth));
  encode_row(type, values.data(), kDepth, bytes.data());
  return decode(type, bytes);
}

// A sum of four uniform numbers: much like weights.
std::vector<float> draw(uint64_t seed, float centre = 0) {
  std::vector<float> values;
  for (uint64_t i = 0; i < kDepth; ++i) {
    double sum = 0;
    for (uint32_t part = 0; part < 4; ++part) sum += uniform01(seed, part, i) - 0.5;
    values.push_back(centre + 0.05f * static_cast<float>(sum));
  }
  return values;
}

// Root mean square of the differences over that of the values.
double relative_error(const std::vector<float>& actual, const std::vector<float>& expected) {
  double error = 0, all = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    error += std::pow(double{actual[i]} - double{expected[i]}, 2);
    all += std::pow(double{expected[i]}, 2);
  }
  return std::sqrt(error / all);
}

class Blocks : public testing::TestWithParam<GgmlType> {};

TEST_P(Blocks, ZerosStayZeros) {
  const std::vector<float> zeros(kDepth, 0.0f);
  EXPECT_EQ(round_trip(GetParam(), zeros), zeros);
}

// What a block stands for is on its grid: a second rounding changes no value by more than the rounding of
// the scales, which the search may choose anew.
TEST_P(Blocks, WhatTheyStandForComesBack) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const auto once = round_trip(GetParam(), draw(seed, seed % 3 == 0 ? 0.1f : 0.0f));
    EXPECT_LT(relative_error(round_trip(GetParam(), once), once), 2e-2) << "seed " << seed;
  }
}

TEST_P(Blocks, ErrorsStayBelowThoseOfTheGrid) {
  // Uniform noise of one step has a root mean square of step / sqrt(12). For 32 values of this distribution
  // the largest is about 2.2 times the root mean square: 16 and 256 steps over 4.4 of them.
  const double bound = GetParam() == GgmlType::kQ8_0   ? 0.006
                       : GetParam() == GgmlType::kQ6_K ? 0.021
                       : GetParam() == GgmlType::kQ4_K ? 0.075
                                                       : 0.100;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const auto values = draw(seed);
    EXPECT_LT(relative_error(round_trip(GetParam(), values), values), bound) << "seed " << seed;
  }
}

TEST_P(Blocks, LargeAndSmallValuesStayFinite) {
  for (const float size : {1e-9f, 1e-6f, 6e4f}) {
    auto values = draw(7);
    for (float& value : values) value *= size / 0.1f;
    for (const float value : round_trip(GetParam(), values)) EXPECT_TRUE(std::isfinite(value)) << size;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Blocks,
                         testing::Values(GgmlType::kQ4_0, GgmlType::kQ8_0, GgmlType::kQ4_K, GgmlType::kQ6_K),
                         [](const auto& one) {
                           return std::string(ggml_type_name(static_cast<uint32_t>(one.param)));
                         });

TEST(Q8Blocks, GridsAreExact) {
  std::vector<float> values(kDepth);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = 0.0078125f * static_cast<float>(static_cast<int>(i * 37 % 255) - 127);
    if (i % 32 == 5) values[i] = -0.0078125f * 127;  // every block has the extreme
  }
  EXPECT_EQ(round_trip(GgmlType::kQ8_0, values), values);
}

TEST(Q4Blocks, GridsAreExact) {
  std::vector<float> values(kDepth);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = 0.03125f * static_cast<float>(i * 7 % 16) - 0.25f;  // -8 to 7 of d = 1 / 32
    if (i % 32 == 3) values[i] = -0.25f;
  }
  EXPECT_EQ(round_trip(GgmlType::kQ4_0, values), values);
}

// Made with gguf.quants.quantize of pip gguf 0.19: the reference rounds halves of Q4_0 upwards.
TEST(Q4Blocks, HalvesGoUp) {
  std::vector<float> values(kDepth, 0.0f);
  values[0] = -8.0f;
  values[1] = 0.5f;
  values[2] = -0.5f;
  values[3] = 7.9f;
  std::vector<uint8_t> bytes(row_bytes(GgmlType::kQ4_0, kDepth));
  encode_row(GgmlType::kQ4_0, values.data(), kDepth, bytes.data());
  EXPECT_EQ(bytes[2] & 15, 0);
  EXPECT_EQ(bytes[3] & 15, 9);
  EXPECT_EQ(bytes[4] & 15, 8);
  EXPECT_EQ(bytes[5] & 15, 15);
}

// A grid with offsets: 16 steps from a minimum, as groups have them whose values are of both signs.
TEST(KBlocks, Q4KFindsGridsThatAreThere) {
  std::vector<float> values(kDepth);
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t group = i / 32 % 8;
    const float scale = 0.001f * static_cast<float>(group == 7 ? 63 : 20 + 5 * group);
    const float minimum = 0.01f * static_cast<float>(group == 3 ? 63 : 30 + 2 * group);
    values[i] = scale * static_cast<float>(i * 11 % 16) - minimum;
  }
  EXPECT_LT(relative_error(round_trip(GgmlType::kQ4_K, values), values), 2e-3);
}

TEST(Names, AreThoseOfTheFlag) {
  EXPECT_EQ(ggml_type_from_name("q4_k"), GgmlType::kQ4_K);
  EXPECT_FALSE(ggml_type_from_name("q6_k"));
  EXPECT_EQ(row_bytes(GgmlType::kQ4_K, 512), 288U);
}

}  // namespace
}  // namespace pagoda::quantize
