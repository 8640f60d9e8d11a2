#include "quantize/coded_matrix.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "tensor/half.h"

namespace pagoda::quantize {
namespace {

std::vector<float> random_values(size_t count, uint64_t seed) {
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i) {
    values.push_back(static_cast<float>(uniform01(seed, 0, i) + uniform01(seed, 1, i) - 1.0));
  }
  return values;
}

TEST(FitGrid, CoversTheValuesAndZero) {
  const std::vector<float> values = {-1.5f, 0.25f, 3.0f};
  const Grid grid = fit_grid(values, {4, false});
  EXPECT_NEAR(grid.scale, 0.3f, 1e-3);
  EXPECT_EQ(grid.scale, f16_to_f32(f32_to_f16(grid.scale)));
  EXPECT_EQ(grid.zero, 5);
  const Grid symmetric = fit_grid(values, {4, true});
  EXPECT_EQ(symmetric.zero, 8);
  EXPECT_NEAR(symmetric.scale, 0.4f, 1e-3);
}

// A stored zero point is one less: it must not become negative.
TEST(FitGrid, ZeroPointIsAtLeastOne) {
  const std::vector<float> positive = {1, 2, 3}, zeros(8);
  EXPECT_EQ(fit_grid(positive, {4, false}).zero, 1);
  const Grid grid = fit_grid(zeros, {4, false});
  EXPECT_GE(grid.zero, 1);
  EXPECT_GT(grid.scale, 0);
  EXPECT_EQ(grid_value(round_to_grid(0, grid, 4), grid), 0.0f);
}

TEST(FitGridTo, GivesUpRangeForWhatMatters) {
  std::vector<float> values = random_values(64, 5), importance(64, 1.0f);
  values[7] = 1.6f;  // an outlier that hardly any input meets
  importance[7] = 1e-4f;
  EXPECT_LT(fit_grid_to(values, importance, {4, false}).scale, fit_grid(values, {4, false}).scale);
  importance[7] = 1e4f;
  EXPECT_GT(fit_grid_to(values, importance, {4, false}).scale, 0.9f * fit_grid(values, {4, false}).scale);
}

TEST(RoundToNearest, ErrsByHalfAStepAtMost) {
  ComputePool pool(2);
  for (const int bits : {4, 8}) {
    for (const bool symmetric : {false, true}) {
      const CodedShape shape{5, 96, 32, {bits, symmetric}};
      const auto values = random_values(5 * 96, 3);
      const CodedMatrix coded = round_to_nearest(values.data(), shape, pool);
      std::vector<float> back(values.size());
      coded.dequantise(back.data(), pool);
      for (int64_t n = 0; n < 5; ++n) {
        for (int64_t k = 0; k < 96; ++k) {
          const auto i = static_cast<size_t>(n * 96 + k);
          // The ends of a range may lie another half step outside: scale and zero point are rounded too.
          const float step = coded.grid(n, k / 32).scale;
          EXPECT_LE(std::fabs(back[i] - values[i]), step * 1.02f) << bits << symmetric << n << k;
        }
      }
    }
  }
}

}  // namespace
}  // namespace pagoda::quantize
