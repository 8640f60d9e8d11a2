#include "kernels/gated_activation.h"

#include <gtest/gtest.h>

#include "kernels/tests/kernel_test_support.h"

namespace pagoda::kernels {
namespace {

using namespace testing;

double reference(GatedActivation kind, double x) {
  if (kind == GatedActivation::kSilu) return x / (1 + std::exp(-x));
  const double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
  return x / (1 + std::exp(-2 * u));  // = 0.5 x (1 + tanh(u)), without cancellation
}

class GatedActivationTest : public PerIsa {
 protected:
  ComputePool pool_{2};
};

// Relative error at most 1e-6, where the value is not vanishing. In the negative tail of GELU the exponent 2u
// itself has rounding errors of |2u| 2^-23, which exp turns into relative ones: there 1e-6 holds relative to
// |x| alone.
TEST_P(GatedActivationTest, RelativeErrorIsBelowOneInAMillion) {
  for (const GatedActivation kind : {GatedActivation::kSilu, GatedActivation::kGeluTanh}) {
    std::vector<float> gate;
    for (float x = -80; x < 80; x += 0.0037f) gate.push_back(x);
    for (float x = 1e-8f; x < 1; x *= 1.01f) gate.insert(gate.end(), {x, -x});
    gate.insert(gate.end(), {0.0f, -0.0f, 1e-38f, 3000.0f, -3000.0f, 3e38f, -3e38f});
    const std::vector<float> ones(gate.size(), 1.0f);
    std::vector<float> y(gate.size());
    gated_activation_row(kind, gate.data(), ones.data(), static_cast<int64_t>(gate.size()), y.data());
    double worst = 0;
    for (size_t i = 0; i < gate.size(); ++i) {
      const double x = gate[i];
      if (kind == GatedActivation::kGeluTanh && std::abs(x) > 1e12) {
        EXPECT_TRUE(x > 0 ? y[i] == gate[i] : y[i] == 0) << x;  // x^3 leaves the range of float
        continue;
      }
      const double expected = reference(kind, x);
      double allowed = std::abs(expected) * 1e-6 + 1e-36;
      if (kind == GatedActivation::kGeluTanh && x < -2)
        allowed = std::abs(x) * 1e-6 * std::max(1e-3, std::exp(-x * x / 2));
      const double error = std::abs(static_cast<double>(y[i]) - expected);
      ASSERT_LE(error, allowed) << "kind " << static_cast<int>(kind) << " x " << x << " got " << y[i];
      if (std::abs(expected) > 1e-30) worst = std::max(worst, error / std::abs(expected));
    }
    RecordProperty(kind == GatedActivation::kSilu ? "silu_worst_1e9" : "gelu_worst_1e9",
                   std::to_string(worst * 1e9));
  }
}

TEST_P(GatedActivationTest, EverySizeInPlaceAndConverted) {
  for (const GatedActivation kind : {GatedActivation::kSilu, GatedActivation::kGeluTanh}) {
    for (const int64_t size : {1, 3, 8, 15, 16, 17, 33, 1030}) {
      const auto n = static_cast<size_t>(size);
      const std::vector<float> gate = random_floats(2 * n, -6, 6, 1), up = random_floats(2 * n, -3, 3, 2);
      std::vector<float> y(2 * n);
      for (size_t r = 0; r < 2; ++r) {
        std::vector<float> over_gate(gate.begin() + static_cast<int64_t>(r * n),
                                     gate.begin() + static_cast<int64_t>((r + 1) * n));
        over_gate.push_back(5.0f);
        gated_activation_row(kind, gate.data() + r * n, up.data() + r * n, size, y.data() + r * n);
        gated_activation_row(kind, over_gate.data(), up.data() + r * n, size, over_gate.data());
        EXPECT_TRUE(same_bits(over_gate.data(), y.data() + r * n, n));
        EXPECT_EQ(over_gate[n], 5.0f);
        for (size_t i = 0; i < n; ++i) {
          const double expected = reference(kind, gate[r * n + i]) * static_cast<double>(up[r * n + i]);
          ASSERT_NEAR(y[r * n + i], expected, std::abs(expected) * 2e-6 + 1e-7);
        }
      }
      const WideGroups wide = kMixedCodes.groups(size);
      ActivationBuffer fused(2, size);
      gated_activation_convert(kind, {{gate.data(), 2, size, size}, {up.data(), 2, size, size}},
                               {ActivationForm::kCoded, &wide}, fused, pool_);
      EXPECT_TRUE(same_activations(fused.view(), Converted(y, 2, size, kMixedCodes, pool_).view()));
    }
  }
}

TEST_P(GatedActivationTest, WithoutAGateItIsTheGateAlone) {
  const int64_t rows = 3, size = 1030, stride = 1100;
  const std::vector<float> x = random_floats(static_cast<size_t>(rows * stride), -6, 6, 4);
  const std::vector<float> ones(x.size(), 1.0f);
  const WideGroups wide = kMixedCodes.groups(size);
  const ActivationSpec spec{ActivationForm::kCoded, &wide};
  ActivationBuffer plain(rows, size), gated(rows, size);
  activation_convert(GatedActivation::kGeluTanh, {x.data(), rows, size, stride}, spec, plain, pool_);
  gated_activation_convert(GatedActivation::kGeluTanh,
                           {{x.data(), rows, size, stride}, {ones.data(), rows, size, stride}}, spec, gated,
                           pool_);
  EXPECT_TRUE(same_activations(plain.view(), gated.view()));
}

TEST_P(GatedActivationTest, NanStaysNan) {
  const std::vector<float> gate = {1.0f, std::nanf(""), 2.0f}, up = {1.0f, 1.0f, std::nanf("")};
  std::vector<float> y(3);
  gated_activation_row(GatedActivation::kSilu, gate.data(), up.data(), 3, y.data());
  EXPECT_TRUE(std::isfinite(y[0]) && std::isnan(y[1]) && std::isnan(y[2]));
}

PAGODA_PER_ISA(GatedActivationTest);

}  // namespace
}  // namespace pagoda::kernels
