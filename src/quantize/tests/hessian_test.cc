#include "quantize/hessian.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "kernels/activations.h"
#include "quantize/cholesky.h"
#include "tensor/half.h"

namespace pagoda::quantize {
namespace {

float draw(uint64_t seed, int64_t i) {
  return static_cast<float>(uniform01(seed, 0, static_cast<uint64_t>(i)) - 0.5);
}

// Depths beside the blocks of the sums, numbers of rows beside those of the kernels.
TEST(InputStatistics, SumsTheOuterProducts) {
  ComputePool pool(2);
  for (const int64_t depth : {8, 64, 544}) {
    InputStatistics statistics(depth);
    std::vector<float> all;
    int64_t count = 0;
    for (const int64_t rows : {1, 7, 40}) {
      std::vector<float> values;
      for (int64_t i = 0; i < rows * depth; ++i) {
        values.push_back(bf16_to_f32(f32_to_bf16(draw(static_cast<uint64_t>(rows), i))));
      }
      kernels::ActivationBuffer x(rows, depth);
      kernels::convert_activations({values.data(), rows, depth, depth}, {kernels::ActivationForm::kBF16}, x,
                                   pool);
      statistics.add(x.view(), pool);
      all.insert(all.end(), values.begin(), values.end());
      count += rows;
    }
    const Dense h = statistics.hessian();
    const auto means = statistics.mean_magnitudes();
    for (int64_t i = 0; i < depth; i += 3) {
      double mean = 0;
      for (int64_t row = 0; row < count; ++row) mean += std::fabs(all[static_cast<size_t>(row * depth + i)]);
      EXPECT_NEAR(means[static_cast<size_t>(i)], mean / static_cast<double>(count), 1e-5);
      for (int64_t j = 0; j < depth; j += 5) {
        double sum = 0;
        for (int64_t row = 0; row < count; ++row) {
          sum += double{all[static_cast<size_t>(row * depth + i)]} *
                 double{all[static_cast<size_t>(row * depth + j)]};
        }
        // Sums of 48 products of at most 1/4, float32.
        EXPECT_NEAR(h.at(i, j), 2 * sum / static_cast<double>(count), 1e-5) << depth << " " << i << " " << j;
        EXPECT_EQ(h.at(i, j), h.at(j, i));
      }
    }
  }
}

// U^T U h = 1, for sizes around the blocks.
TEST(UpperFactorOfInverse, IsOneOfTheInverse) {
  ComputePool pool(2);
  for (const int64_t n : {1, 5, 128, 160, 300}) {
    Dense x(2 * n, n), h(n, n);
    for (int64_t i = 0; i < 2 * n; ++i) {
      for (int64_t j = 0; j < n; ++j) x.at(i, j) = draw(3, i * n + j);
    }
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        for (int64_t k = 0; k < 2 * n; ++k) h.at(i, j) += x.at(k, i) * x.at(k, j) / static_cast<float>(n);
      }
      h.at(i, i) += 0.05f;
    }
    Dense copy(n, n);
    for (int64_t i = 0; i < n; ++i) std::copy_n(h.row(i), n, copy.row(i));
    const Dense u = upper_factor_of_inverse(std::move(copy), pool);
    ASSERT_EQ(u.rows(), n);
    Dense uh(n, n);  // U h = U^-T, so U (U h)^T... is the identity: U h U^T = 1
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t k = i; k < n; ++k) {
        for (int64_t j = 0; j < n; ++j) uh.at(i, j) += u.at(i, k) * h.at(k, j);
      }
      for (int64_t j = 0; j < i; ++j) EXPECT_EQ(u.at(i, j), 0.0f);
    }
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < n; ++k) sum += double{uh.at(i, k)} * double{u.at(j, k)};
        // The condition is below 100, float32 has 6e-8: n of those add up.
        ASSERT_NEAR(sum, i == j ? 1.0 : 0.0, 2e-3) << n << " " << i << " " << j;
      }
    }
  }
}

TEST(UpperFactorOfInverse, EmptyWhenThereIsNone) {
  ComputePool pool(1);
  Dense h(2, 2);
  h.at(0, 0) = h.at(1, 1) = 1;
  h.at(0, 1) = h.at(1, 0) = 2;
  EXPECT_EQ(upper_factor_of_inverse(std::move(h), pool).rows(), 0);
}

}  // namespace
}  // namespace pagoda::quantize
