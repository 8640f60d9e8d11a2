#include "kernels/router.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/tests/kernel_test_support.h"

namespace pagoda::kernels {
namespace {

using namespace testing;

TEST(Router, TakesTheLargestOfTheSoftmax) {
  for (const size_t experts : {1, 4, 6, 128, 1024}) {
    for (const size_t k : {size_t{1}, size_t{2}, size_t{8}, size_t{64}}) {
      if (k > experts) continue;
      const std::vector<float> logits = random_floats(experts, -9, 9, experts + k);
      std::vector<size_t> order(experts);
      std::iota(order.begin(), order.end(), size_t{0});
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return logits[a] > logits[b]; });
      for (const bool renormalise : {false, true}) {
        std::vector<int32_t> ids(k);
        std::vector<float> weights(k);
        choose_experts(logits, renormalise, {ids, weights});
        double sum = 0;
        for (size_t i = 0; i < (renormalise ? k : experts); ++i)
          sum += std::exp(static_cast<double>(logits[order[i]]));
        for (size_t i = 0; i < k; ++i) {
          ASSERT_EQ(ids[i], static_cast<int32_t>(order[i]));
          const double expected = std::exp(static_cast<double>(logits[order[i]])) / sum;
          // The exponent has an error of up to 18 * 2^-24, and the sum one for each addition.
          ASSERT_NEAR(weights[i], expected, expected * (static_cast<double>(experts) + 24) * 0x1p-24);
        }
      }
    }
  }
}

TEST(Router, EqualLogitsGoByNumber) {
  const std::vector<float> logits = {1, 3, 3, 0, 3};
  std::vector<int32_t> ids(3);
  std::vector<float> weights(3);
  choose_experts(logits, true, {ids, weights});
  EXPECT_EQ(ids, (std::vector<int32_t>{1, 2, 4}));
  for (const float weight : weights) EXPECT_NEAR(weight, 1.0 / 3, 1e-7);
}

TEST(Router, NanChoosesSomeExpertsAndShowsInTheWeights) {
  const std::vector<float> logits(8, std::nanf(""));
  std::vector<int32_t> ids(2);
  std::vector<float> weights(2);
  choose_experts(logits, true, {ids, weights});
  EXPECT_EQ(ids, (std::vector<int32_t>{0, 1}));
  EXPECT_TRUE(std::isnan(weights[0]) && std::isnan(weights[1]));
}

}  // namespace
}  // namespace pagoda::kernels
