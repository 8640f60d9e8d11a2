#include "model/config.h"

#include <gtest/gtest.h>

#include <cmath>

namespace pagoda::model {
namespace {

TEST(RopeInverseFrequencies, PlainPowers) {
  const auto f = rope_inverse_frequencies({}, 64);
  ASSERT_EQ(f.size(), 32u);
  for (size_t i = 0; i < f.size(); ++i)
    EXPECT_NEAR(f[i], std::pow(10000.0, -static_cast<double>(i) / 32), 1e-15);
}

TEST(RopeInverseFrequencies, LinearDividesAll) {
  RopeConfig rope;
  rope.scaling = RopeConfig::Scaling::kLinear;
  rope.factor = 2;
  const auto f = rope_inverse_frequencies(rope, 64);
  EXPECT_EQ(f[0], 0.5);
  EXPECT_NEAR(f[1], 0.3749471, 1e-7);
}

// Numbers of transformers' modeling_rope_utils (float32: 7 digits).
TEST(RopeInverseFrequencies, Llama3BlendsByWavelength) {
  RopeConfig rope;
  rope.theta = 500000;
  const auto base = rope_inverse_frequencies(rope, 64);
  rope.scaling = RopeConfig::Scaling::kLlama3;
  rope.factor = 32;
  rope.low_freq_factor = 1;
  rope.high_freq_factor = 4;
  rope.original_max_positions = 8192;
  const auto f = rope_inverse_frequencies(rope, 64);
  const std::pair<size_t, double> expected[] = {{0, 1.0},
                                                {10, 0.0165604409},
                                                {14, 0.0032114461},
                                                {15, 0.00129054801},
                                                {16, 0.000429556705},
                                                {17, 9.70828623e-05},
                                                {18, 1.94616387e-05},
                                                {31, 9.41830649e-08}};
  for (const auto& [i, value] : expected) EXPECT_NEAR(f[i] / value, 1.0, 3e-7) << i;
  const auto ratio = [&](size_t i) { return base[i] / f[i]; };
  for (size_t i = 0; i <= 14; ++i) EXPECT_DOUBLE_EQ(ratio(i), 1.0) << i;
  EXPECT_NEAR(ratio(15), 1.6513, 5e-5);
  EXPECT_NEAR(ratio(16), 3.2923, 5e-5);
  EXPECT_NEAR(ratio(17), 9.6667, 5e-5);
  for (size_t i = 18; i < 32; ++i) EXPECT_NEAR(ratio(i), 32.0, 1e-9) << i;
}

TEST(RopeInverseFrequencies, FactorsOfTheFileDivide) {
  RopeConfig rope;
  rope.freq_factors = {1, 4};
  const auto f = rope_inverse_frequencies(rope, 4);
  EXPECT_EQ(f[0], 1.0);
  EXPECT_DOUBLE_EQ(f[1], 0.01 / 4);
}

TEST(Architecture, NamesAreThoseOfTheErrorList) {
  std::string all;
  for (const auto a :
       {Architecture::kLlama, Architecture::kMistral, Architecture::kQwen2, Architecture::kQwen3,
        Architecture::kGemma2, Architecture::kGemma3, Architecture::kPhi3, Architecture::kGranite,
        Architecture::kStarcoder2, Architecture::kGpt2, Architecture::kMixtral, Architecture::kQwen3Moe}) {
    all += (all.empty() ? "" : ", ") + std::string(architecture_name(a));
  }
  EXPECT_EQ(all, supported_architectures());
}

}  // namespace
}  // namespace pagoda::model
