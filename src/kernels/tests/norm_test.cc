#include "kernels/norm.h"

#include <gtest/gtest.h>

#include "kernels/tests/kernel_test_support.h"

namespace pagoda::kernels {
namespace {

using namespace testing;

class NormTest : public PerIsa {
 protected:
  ComputePool pool_{2};
};

TEST_P(NormTest, MatchesADoubleReferenceForEverySize) {
  for (const int64_t size : {1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 128, 1536, 4099}) {
    const auto n = static_cast<size_t>(size);
    const std::vector<float> x = random_floats(n, -5, 5, 1), weight = random_floats(n, -2, 2, 2);
    std::vector<float> y(n + 1, 77.0f);
    norm_row(x.data(), {NormKind::kRms, 1e-5f, weight.data()}, size, y.data());
    double sum = 0;
    for (const float value : x) sum += static_cast<double>(value) * static_cast<double>(value);
    const double factor = 1 / std::sqrt(sum / static_cast<double>(size) + 1e-5);
    // Every partial sum takes size / 32 additions, the rest is a handful of roundings.
    const double bound = (static_cast<double>(size) / 32 + 12) * 0x1p-24;
    for (size_t i = 0; i < n; ++i) {
      const double expected = static_cast<double>(x[i]) * factor * static_cast<double>(weight[i]);
      ASSERT_NEAR(y[i], expected, std::abs(expected) * bound) << size << " at " << i;
    }
    EXPECT_EQ(y[n], 77.0f);
  }
}

TEST_P(NormTest, LayerNormMatchesADoubleReferenceForEverySize) {
  for (const int64_t size : {1, 2, 7, 15, 16, 17, 31, 32, 33, 384, 768, 4099}) {
    const auto n = static_cast<size_t>(size);
    const std::vector<float> x = random_floats(n, -5, 6, 1), weight = random_floats(n, -2, 2, 2);
    const std::vector<float> bias = random_floats(n, -3, 3, 3);
    std::vector<float> y(n + 1, 77.0f);
    norm_row(x.data(), {NormKind::kLayer, 1e-5f, weight.data(), bias.data()}, size, y.data());
    double mean = 0, variance = 0;
    for (const float value : x) mean += static_cast<double>(value) / static_cast<double>(size);
    for (const float value : x)
      variance += std::pow(static_cast<double>(value) - mean, 2) / static_cast<double>(size);
    const double factor = 1 / std::sqrt(variance + 1e-5);
    // The mean takes size / 16 additions of values up to 6; the subtraction passes its error on, times the
    // factor.
    const double mean_error = (static_cast<double>(size) / 16 + 5) * 6 * 0x1p-24;
    const double bound = (static_cast<double>(size) / 16 + 12) * 0x1p-24;
    for (size_t i = 0; i < n; ++i) {
      const double scaled = (static_cast<double>(x[i]) - mean) * factor * static_cast<double>(weight[i]);
      const double expected = scaled + static_cast<double>(bias[i]);
      const double allowed =
          std::abs(scaled) * bound + mean_error * factor * std::abs(weight[i]) + 3 * 0x1p-24;
      ASSERT_NEAR(y[i], expected, allowed) << size << " at " << i;
    }
    EXPECT_EQ(y[n], 77.0f);
  }
}

TEST_P(NormTest, RowsInPlaceAndConvertedAgree) {
  const int64_t rows = 5, size = 1100, stride = 1200;
  const std::vector<float> x = random_floats(static_cast<size_t>(rows * stride), -5, 5, 3);
  const std::vector<float> weight = random_floats(1100, 0.5f, 2, 4), bias = random_floats(1100, -1, 1, 5);
  for (const NormKind kind : {NormKind::kRms, NormKind::kLayer}) {
    const Norm norm{kind, 1e-6f, weight.data(), bias.data()};
    std::vector<float> in_place = x, separate(x.size());
    norm_rows({in_place.data(), rows, size, stride}, norm, pool_);
    for (int64_t r = 0; r < rows; ++r) {
      norm_row(x.data() + r * stride, norm, size, separate.data() + r * stride);
      EXPECT_TRUE(same_bits(in_place.data() + r * stride, separate.data() + r * stride, 1100));
      EXPECT_TRUE(same_bits(in_place.data() + r * stride + size, x.data() + r * stride + size, 100))
          << "the gap stays";
    }
    for (const FormCase& form :
         {FormCase{ActivationForm::kF32}, FormCase{ActivationForm::kBF16}, kMixedCodes}) {
      const WideGroups wide = form.groups(size);
      ActivationBuffer fused(rows, size);
      norm_convert({x.data(), rows, size, stride}, norm, {form.form, &wide}, fused, pool_);
      const Converted apart(ConstRowsView(separate.data(), rows, size, stride), form, pool_);
      EXPECT_TRUE(same_activations(fused.view(), apart.view()));
    }
  }
}

TEST_P(NormTest, ARowOfZerosStaysZero) {
  const std::vector<float> x(100, 0.0f), weight(100, 3.0f);
  std::vector<float> y(100, 1.0f);
  norm_row(x.data(), {NormKind::kRms, 1e-6f, weight.data()}, 100, y.data());
  for (const float value : y) EXPECT_EQ(value, 0.0f);
}

PAGODA_PER_ISA(NormTest);

TEST(NormTiers, AgreeBitForBit) {
  const Isa before = current_isa();
  for (const NormKind kind : {NormKind::kRms, NormKind::kLayer}) {
    for (const int64_t size : {5, 37, 64, 1536, 1550}) {
      const auto n = static_cast<size_t>(size);
      const std::vector<float> x = random_floats(n, -5, 5, 7), weight = random_floats(n, -2, 2, 8);
      const std::vector<float> bias = random_floats(n, -1, 1, 9);
      std::vector<float> reference(n), y(n);
      for (const Isa isa : supported_isas()) {
        set_isa(isa);
        norm_row(x.data(), {kind, 1e-5f, weight.data(), bias.data()}, size,
                 isa == Isa::kScalar ? reference.data() : y.data());
        if (isa != Isa::kScalar) {
          EXPECT_TRUE(same_bits(reference.data(), y.data(), n)) << isa_name(isa) << " " << size;
        }
      }
    }
  }
  set_isa(before);
}

}  // namespace
}  // namespace pagoda::kernels
