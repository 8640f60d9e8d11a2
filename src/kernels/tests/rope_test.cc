#include "kernels/rope.h"

#include <gtest/gtest.h>

#include "kernels/tests/kernel_test_support.h"

namespace pagoda::kernels {
namespace {

using namespace testing;

std::vector<double> frequencies(int half) {
  std::vector<double> list;
  for (int i = 0; i < half; ++i) list.push_back(std::pow(10000.0, -static_cast<double>(i) / half));
  return list;
}

class RopeTest : public PerIsa {};

TEST_P(RopeTest, TurnsPairsAndLeavesTheRest) {
  for (const int half : {1, 4, 7, 8, 16, 17, 24, 32, 64}) {
    const RopeTable table(frequencies(half), 3000, 1.25);
    EXPECT_EQ(table.rotary_dim(), 2 * half);
    EXPECT_EQ(table.max_positions(), 3000);
    for (const int64_t position : {0, 1, 77, 2999}) {
      const auto n = static_cast<size_t>(half);
      const std::vector<float> x = random_floats(2 * n + 5, -2, 2, 1);
      std::vector<float> y = x;
      rope_row(y.data(), table, position);
      for (size_t i = 0; i < n; ++i) {
        const double angle = static_cast<double>(position) * frequencies(half)[i];
        const double c = std::cos(angle) * 1.25, s = std::sin(angle) * 1.25, a = x[i], b = x[i + n];
        EXPECT_NEAR(y[i], a * c - b * s, 1e-6);
        EXPECT_NEAR(y[i + n], b * c + a * s, 1e-6);
      }
      for (size_t i = 2 * n; i < x.size(); ++i) EXPECT_EQ(y[i], x[i]);
    }
  }
}

// Far positions lose nothing: the angle is reduced in double.
TEST_P(RopeTest, FarPositionsKeepTheirPrecision) {
  const RopeTable table({1.0, 0.3}, 131073);
  EXPECT_NEAR(table.cos_row(131072)[0], std::cos(131072.0), 1e-7);
  EXPECT_NEAR(table.sin_row(131072)[1], std::sin(131072 * 0.3), 1e-7);
}

PAGODA_PER_ISA(RopeTest);

TEST(RopeTiers, AgreeBitForBit) {
  const Isa before = current_isa();
  const RopeTable table(frequencies(40), 100);
  const std::vector<float> x = random_floats(80, -2, 2, 3);
  std::vector<float> reference = x;
  for (const Isa isa : supported_isas()) {
    set_isa(isa);
    std::vector<float> y = x;
    rope_row(y.data(), table, 63);
    if (isa == Isa::kScalar) reference = y;
    EXPECT_TRUE(same_bits(reference.data(), y.data(), 80)) << isa_name(isa);
  }
  set_isa(before);
}

TEST(RopeDeathTest, ChecksThePosition) {
  const RopeTable table({1.0}, 10);
  float x[2] = {};
  EXPECT_DEATH(rope_row(x, table, 10), "position 10 of 10");
}

}  // namespace
}  // namespace pagoda::kernels
