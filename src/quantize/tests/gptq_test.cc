#include "quantize/gptq.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"

namespace pagoda::quantize {
namespace {

float draw(uint64_t seed, int64_t i) {
  const auto counter = static_cast<uint64_t>(i);
  return static_cast<float>(uniform01(seed, 0, counter) + uniform01(seed, 1, counter) - 1.0);
}

std::vector<float> weights(int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(draw(1, i));
  return values;
}

// Inputs that share a few directions and differ in size, as those of a model do.
Dense correlated_inputs(int64_t rows, int64_t depth) {
  constexpr int64_t kDirections = 12;
  Dense x(rows, depth);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < depth; ++j) {
      float sum = 0.3f * draw(2, i * depth + j);
      for (int64_t d = 0; d < kDirections; ++d) sum += draw(3, i * kDirections + d) * draw(4, d * depth + j);
      x.at(i, j) = sum * (j % 11 == 0 ? 4.0f : 1.0f);
    }
  }
  return x;
}

Dense hessian_of(const Dense& x) {
  Dense h(x.columns(), x.columns());
  for (int64_t i = 0; i < x.columns(); ++i) {
    for (int64_t j = 0; j < x.columns(); ++j) {
      for (int64_t k = 0; k < x.rows(); ++k)
        h.at(i, j) += 2 * x.at(k, i) * x.at(k, j) / static_cast<float>(x.rows());
    }
  }
  return h;
}

// The squared error of the outputs.
double output_error(const std::vector<float>& values, const CodedMatrix& coded, const Dense& x,
                    ComputePool& pool) {
  std::vector<float> back(values.size());
  coded.dequantise(back.data(), pool);
  const int64_t depth = coded.shape.depth;
  double error = 0;
  for (int64_t n = 0; n < coded.shape.rows; ++n) {
    for (int64_t i = 0; i < x.rows(); ++i) {
      double sum = 0;
      for (int64_t k = 0; k < depth; ++k) {
        const auto at = static_cast<size_t>(n * depth + k);
        sum += double{back[at] - values[at]} * double{x.at(i, k)};
      }
      error += sum * sum;
    }
  }
  return error;
}

TEST(Gptq, EqualsRoundingWhenInputsAreIndependent) {
  ComputePool pool(2);
  constexpr int64_t kRows = 9, kDepth = 160, kGroup = 32;
  const auto values = weights(kRows * kDepth);
  const std::vector<float> importance(kGroup, 2.0f);
  for (const bool symmetric : {false, true}) {
    for (const int bits : {4, 8}) {
      Dense identity(kDepth, kDepth);
      for (int64_t i = 0; i < kDepth; ++i) identity.at(i, i) = 2.0f;
      const GptqInput input(std::move(identity), pool);
      const CodedShape shape{kRows, kDepth, kGroup, {bits, symmetric}};
      const CodedMatrix coded = gptq(values.data(), shape, input, Grouping::kNeighbours, pool);
      for (int64_t n = 0; n < kRows; ++n) {
        for (int64_t k = 0; k < kDepth; ++k) {
          const float* const group = values.data() + n * kDepth + k / kGroup * kGroup;
          const Grid grid = fit_grid_to({group, kGroup}, importance, shape.grid);
          const float value = values[static_cast<size_t>(n * kDepth + k)];
          ASSERT_EQ(coded.row_codes(n)[k], round_to_grid(value, grid, bits)) << n << " " << k;
        }
      }
      // 8 bits have no better range than the whole one.
      if (bits == 8) {
        EXPECT_EQ(coded.codes, round_to_nearest(values.data(), shape, pool).codes);
      }
    }
  }
}

TEST(Gptq, LosesLessThanRounding) {
  ComputePool pool(2);
  constexpr int64_t kRows = 24, kDepth = 288;
  const Dense x = correlated_inputs(400, kDepth);
  const auto values = weights(kRows * kDepth);
  for (const int64_t group : {int64_t{32}, kDepth}) {
    const CodedShape shape{kRows, kDepth, group, {4, false}};
    const double rounded = output_error(values, round_to_nearest(values.data(), shape, pool), x, pool);
    for (const Grouping grouping : {Grouping::kNeighbours, Grouping::kActOrder}) {
      const GptqInput input(hessian_of(x), pool);
      const double error = output_error(values, gptq(values.data(), shape, input, grouping, pool), x, pool);
      EXPECT_LT(error, 0.6 * rounded) << group << static_cast<int>(grouping);
    }
  }
}

TEST(Gptq, ActOrderPutsTheMostActiveInputsIntoOneGroup) {
  ComputePool pool(1);
  Dense h(64, 64);
  for (int64_t i = 0; i < 64; ++i) h.at(i, i) = i % 2 == 1 ? 10.0f : 1.0f;
  const GptqInput input(std::move(h), pool);
  const auto values = weights(8 * 64);
  const CodedMatrix coded = gptq(values.data(), {8, 64, 32, {4, false}}, input, Grouping::kActOrder, pool);
  for (int64_t k = 0; k < 64; ++k) EXPECT_EQ(coded.group_of[static_cast<size_t>(k)], k % 2 == 1 ? 0 : 1);
}

// Inputs that are always zero have no weight worth a code, and must not break the factor.
TEST(Gptq, DeadInputsBecomeZero) {
  ComputePool pool(1);
  Dense h(32, 32);
  for (int64_t i = 0; i < 31; ++i) h.at(i, i) = 1.0f;
  const GptqInput input(std::move(h), pool);
  const auto values = weights(4 * 32);
  const CodedMatrix coded = gptq(values.data(), {4, 32, 32, {4, false}}, input, Grouping::kNeighbours, pool);
  std::vector<float> back(values.size());
  coded.dequantise(back.data(), pool);
  for (size_t n = 0; n < 4; ++n) EXPECT_EQ(back[n * 32 + 31], 0.0f);
}

}  // namespace
}  // namespace pagoda::quantize
