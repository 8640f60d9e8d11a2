#include "kernels/logit_cap.h"

#include <gtest/gtest.h>

#include "kernels/tests/kernel_test_support.h"

namespace pagoda::kernels {
namespace {

using namespace testing;

class LogitCapTest : public PerIsa {
 protected:
  ComputePool pool_{2};
};

TEST_P(LogitCapTest, MatchesADoubleReferenceForEverySize) {
  for (const LogitCap cap : {LogitCap{0.125f, 0.0f}, LogitCap{1.0f, 30.0f}, LogitCap{2.5f, 12.0f}}) {
    for (const int64_t size : {1, 7, 8, 9, 15, 16, 17, 33, 4096, 4097, 9001}) {
      const int64_t rows = 3, stride = size + 5;
      const std::vector<float> x = random_floats(static_cast<size_t>(rows * stride), -90, 90, 1);
      std::vector<float> y = x;
      cap_logits({y.data(), rows, size, stride}, cap, pool_);
      for (int64_t i = 0; i < rows * stride; ++i) {
        const auto at = static_cast<size_t>(i);
        double expected = static_cast<double>(x[at]) * static_cast<double>(cap.scale);
        if (cap.cap != 0) {
          const auto limit = static_cast<double>(cap.cap);
          expected = limit * std::tanh(expected / limit);
        }
        if (i % stride >= size) expected = static_cast<double>(x[at]);  // the gap stays
        // A few roundings of the argument and of the result; tanh makes errors smaller, never larger.
        ASSERT_NEAR(y[at], expected, std::abs(expected) * 8 * 0x1p-24) << size << " at " << i;
      }
    }
  }
}

TEST_P(LogitCapTest, NanStaysNanAndInfinityBecomesTheCap) {
  std::vector<float> x = {std::nanf(""), INFINITY, -INFINITY, 0.0f};
  cap_logits({x.data(), 1, 4, 4}, {1.0f, 30.0f}, pool_);
  EXPECT_TRUE(std::isnan(x[0]));
  EXPECT_EQ(x[1], 30.0f);
  EXPECT_EQ(x[2], -30.0f);
  EXPECT_EQ(x[3], 0.0f);
}

PAGODA_PER_ISA(LogitCapTest);

}  // namespace
}  // namespace pagoda::kernels
