#include "quantize/awq.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "quantize/awq_layer.h"
#include "quantize/tests/tiny_model.h"

namespace pagoda::quantize {
namespace {

float draw(uint64_t seed, int64_t i) {
  const auto counter = static_cast<uint64_t>(i);
  return static_cast<float>(uniform01(seed, 0, counter) + uniform01(seed, 1, counter) - 1.0);
}

constexpr int64_t kRows = 20, kDepth = 64;
const CodedShape kShape{kRows, kDepth, 32, {4, false}};

std::vector<float> weights() {
  std::vector<float> values;
  for (int64_t i = 0; i < kRows * kDepth; ++i) values.push_back(draw(1, i));
  return values;
}

// Independent channels of the given sizes.
AwqInput input_of(const std::vector<float>& magnitudes) {
  AwqInput input{Dense(kDepth, kDepth), magnitudes, std::vector<float>(kDepth, 0.5f)};
  for (int64_t k = 0; k < kDepth; ++k) {
    const float m = magnitudes[static_cast<size_t>(k)];
    input.hessian.at(k, k) = 2 * m * m;
  }
  return input;
}

double loss(const std::vector<float>& values, const std::vector<float>& scales, const AwqInput& input,
            ComputePool& pool) {
  std::vector<float> scaled = values, back(values.size());
  for (size_t i = 0; i < scaled.size(); ++i) scaled[i] *= scales[i % scales.size()];
  round_to_nearest(scaled.data(), kShape, pool).dequantise(back.data(), pool);
  double sum = 0;
  for (size_t i = 0; i < back.size(); ++i) {
    const size_t k = i % scales.size();
    const double error = back[i] / scales[k] - values[i];
    sum += error * error * double{input.hessian.at(static_cast<int64_t>(k), static_cast<int64_t>(k))};
  }
  return sum;
}

TEST(AwqScales, OutliersGetFinerSteps) {
  ComputePool pool(2);
  std::vector<float> magnitudes(kDepth, 1.0f);
  magnitudes[5] = magnitudes[40] = 30.0f;
  const AwqInput input = input_of(magnitudes);
  const auto values = weights();
  const AwqMatrix matrix{values.data(), kRows};
  const auto scales = awq_scales(std::span(&matrix, 1), input, kShape, pool);
  EXPECT_GT(scales[5], 1.5f * scales[6]);
  const std::vector<float> ones(kDepth, 1.0f);
  EXPECT_LT(loss(values, scales, input, pool), 0.5 * loss(values, ones, input, pool));
}

// Means over all rows, of what each is of the largest of its group.
TEST(AwqScales, RelativeWeights) {
  const std::vector<float> one = {1, -2, 4, 0}, two = {0, 0, -1, 1, 3, 1.5f, 2, 1};
  const AwqMatrix matrices[] = {{one.data(), 1}, {two.data(), 2}};
  const CodedShape shape{0, 4, 2, {4, false}};
  EXPECT_THAT(relative_weights(matrices, shape),
              testing::Pointwise(testing::FloatEq(), {1.5f / 3, 1.5f / 3, 3.0f / 3, 1.5f / 3}));
}

// Channels with small weights have room in their groups: larger scales cost nothing there.
TEST(AwqScales, SmallWeightsGetFinerSteps) {
  ComputePool pool(1);
  auto values = weights();
  for (size_t i = 0; i < values.size(); ++i) {
    if (i % kDepth % 2 == 1) values[i] *= 0.05f;
  }
  AwqInput input = input_of(std::vector<float>(kDepth, 1.0f));
  const AwqMatrix matrix{values.data(), kRows};
  input.weights = relative_weights(std::span(&matrix, 1), kShape);
  const auto scales = awq_scales(std::span(&matrix, 1), input, kShape, pool);
  EXPECT_GT(scales[5], 2 * scales[6]);
  const std::vector<float> ones(kDepth, 1.0f);
  EXPECT_LT(loss(values, scales, input, pool), 0.9 * loss(values, ones, input, pool));
}

TEST(AwqScales, EqualChannelsNeedNone) {
  ComputePool pool(1);
  const AwqInput input = input_of(std::vector<float>(kDepth, 2.0f));
  const auto values = weights();
  const AwqMatrix matrix{values.data(), kRows};
  EXPECT_THAT(awq_scales(std::span(&matrix, 1), input, kShape, pool),
              testing::Each(testing::FloatNear(1, 1e-6f)));
}

// Scales that are folded change nothing but the rounding.
TEST(ScaleLayer, LeavesTheOutputsAsTheyAre) {
  const auto checkpoint = model::open_checkpoint(test::make_tiny_model("awq_layer", {64, 64, 128, 1}));
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  ComputePool pool(2);
  const Samples samples = {{TokenId{1}, TokenId{9}, TokenId{33}, TokenId{7}, TokenId{60}}};
  auto calibration = Calibration::create(*checkpoint, samples, pool);
  ASSERT_TRUE(calibration);
  WorkingSource working(*checkpoint->tensors);
  ASSERT_TRUE(calibration->load(0, working));
  auto statistics = calibration->collect([] { return Result<void>(); });
  ASSERT_TRUE(statistics);
  Options options;
  options.method = Method::kAwq;
  options.group_size = 32;
  ASSERT_TRUE(scale_layer({checkpoint->config, 0, options}, *statistics, working, pool));
  EXPECT_NE(*working.vector("model.layers.0.input_layernorm.weight", 64),
            *checkpoint->tensors->vector("model.layers.0.input_layernorm.weight", 64));
  constexpr size_t kTokens = 5;
  std::vector<float> before, after;
  for (size_t i = 0; i < kTokens * 64; ++i) before.push_back(draw(9, static_cast<int64_t>(i)));
  after = before;
  model::LayerRunner runner(checkpoint->config, kTokens, pool);
  ASSERT_TRUE(runner.load(0, *checkpoint->tensors));
  runner.run(before.data(), kTokens);
  ASSERT_TRUE(runner.load(0, working));
  runner.run(after.data(), kTokens);
  double most = 0, error = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    most = std::max(most, std::fabs(double{before[i]}));
    error = std::max(error, std::fabs(double{before[i] - after[i]}));
  }
  // Both run with weights and inputs in bf16: 2^-8 of what is summed, in three products one after the other.
  EXPECT_LT(error, 0.02 * most);
}

}  // namespace
}  // namespace pagoda::quantize
