#include "kernels/gated_matmul.h"

#include <gtest/gtest.h>

#include "kernels/matmul.h"
#include "kernels/tests/kernel_test_support.h"

namespace pagoda::kernels {
namespace {

using namespace testing;

PackedWeightSpec spec_of(WeightLayout layout, int64_t rows) {
  PackedWeightSpec spec;
  spec.layout = layout;
  spec.rows = rows;
  spec.depth = 96;
  spec.has_offsets = layout == WeightLayout::kW4;
  if (code_bits(layout) > 4) spec.zero_point = 1 << (code_bits(layout) - 1);
  spec.scale_multiplier = 0.0078125f;
  spec.offset_multiplier = 0.03125f;
  return spec;
}

class GatedMatmulTest : public PerIsa {};

// Gate and up packed as one weight or as two, with and without bias: what the separate ops give, bit for bit,
// for every form of input and output and any number of rows and threads.
TEST_P(GatedMatmulTest, EqualsProductAndActivationOneAfterTheOther) {
  constexpr int64_t kSize = 160, kDepth = 96, kMaxRows = 37;
  const std::vector<float> bias = random_floats(2 * kSize, -1, 1, 9);
  for (const WeightLayout layout : {WeightLayout::kF32, WeightLayout::kBF16, WeightLayout::kW8,
                                    WeightLayout::kW6, WeightLayout::kW5, WeightLayout::kW4}) {
    const PackedWeight both = random_weight(spec_of(layout, 2 * kSize), 5);
    const PackedWeight up_alone = random_weight(spec_of(layout, kSize), 6);
    for (const int64_t rows : {1, 3, 37}) {
      for (const bool one_weight : {true, false}) {
        ComputePool pool(rows == 1 ? 1 : 3);
        const std::vector<float> x = random_floats(static_cast<size_t>(rows * kDepth), -2, 2, 7);
        const Converted in(x, rows, kDepth, {activation_form(layout), FormCase::kMixed}, pool);
        GatedProduct product;
        product.gate = {&both, 0, bias.data()};
        product.up =
            one_weight ? PanelRows{&both, kSize / 32, bias.data() + kSize} : PanelRows{&up_alone, 0, nullptr};
        product.size = kSize;
        product.activation = one_weight ? GatedActivation::kSilu : GatedActivation::kGeluTanh;

        AlignedFloats gate(static_cast<size_t>(rows * 2 * kSize)), up(static_cast<size_t>(rows * kSize));
        const MatmulJob jobs[2] = {{&both, bias.data(), gate.data(), 2 * kSize, false},
                                   {&up_alone, nullptr, up.data(), kSize, false}};
        matmul(in.view(), jobs, pool);
        const ConstRowsView up_rows = one_weight ? ConstRowsView(gate.data() + kSize, rows, kSize, 2 * kSize)
                                                 : ConstRowsView(up.data(), rows, kSize, kSize);
        for (const FormCase& form :
             {FormCase{ActivationForm::kF32}, FormCase{ActivationForm::kBF16}, kMixedCodes}) {
          const WideGroups wide = form.groups(kSize);
          ActivationBuffer apart(rows, kSize), fused(rows, kSize);
          gated_activation_convert(product.activation, {{gate.data(), rows, kSize, 2 * kSize}, up_rows},
                                   {form.form, &wide}, apart, pool);
          fused.begin({form.form, &wide}, rows, kSize);
          GatedScratch scratch(kMaxRows, 3);
          gated_matmul(in.view(), product, fused, scratch, pool);
          EXPECT_TRUE(same_activations(apart.view(), fused.view()))
              << weight_layout_name(layout) << " rows " << rows << " form " << static_cast<int>(form.form);
        }
      }
    }
  }
}

PAGODA_PER_ISA(GatedMatmulTest);

TEST(GatedMatmulDeathTest, ChecksItsPreconditions) {
  ComputePool pool(1);
  const PackedWeight w = random_weight(spec_of(WeightLayout::kF32, 64), 1);
  const Converted in(std::vector<float>(96), 1, 96, {}, pool);
  ActivationBuffer out(1, 64);
  out.begin({}, 1, 32);
  GatedScratch scratch(1, 1), none;
  EXPECT_DEATH(gated_matmul(in.view(), {{&w, 0, nullptr}, {&w, 1, nullptr}, 33}, out, scratch, pool),
               "33 columns");
  EXPECT_DEATH(gated_matmul(in.view(), {{&w, 0, nullptr}, {&w, 2, nullptr}, 32}, out, scratch, pool),
               "panel 2");
  EXPECT_DEATH(gated_matmul(in.view(), {{&w, 0, nullptr}, {&w, 1, nullptr}, 32}, out, none, pool),
               "1 rows of 0");
}

}  // namespace
}  // namespace pagoda::kernels
