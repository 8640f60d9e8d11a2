#include "kernels/grouped_matmul.h"

#include <gtest/gtest.h>

#include "kernels/matmul.h"
#include "kernels/tests/kernel_test_support.h"

namespace pagoda::kernels {
namespace {

using namespace testing;

class GroupedMatmulTest : public PerIsa {
 protected:
  ComputePool pool_{2};
};

PackedWeightSpec spec_of(WeightLayout layout, int64_t rows, int64_t depth) {
  PackedWeightSpec spec;
  spec.layout = layout;
  spec.rows = rows;
  spec.depth = depth;
  spec.zero_point = code_bits(layout) > 0 ? 3 : 0;
  return spec;
}

// Rows of different experts in one call are, bit for bit, what each row gives alone.
TEST_P(GroupedMatmulTest, EveryRowIsAsIfItWereAlone) {
  constexpr int64_t kDepth = 80, kRows = 57, kColumns = 96, kOrigin = 16;
  const struct {
    WeightLayout layout;
    FormCase form;
  } cases[] = {{WeightLayout::kF32, {ActivationForm::kF32}},
               {WeightLayout::kBF16, {ActivationForm::kBF16}},
               {WeightLayout::kW8, kMixedCodes},
               {WeightLayout::kW4, kMixedCodes},
               {WeightLayout::kW4, kNarrowCodes}};
  const std::vector<int64_t> counts = {1, 7, 0, 33, 16};
  const std::vector<float> x = random_floats(kRows * kDepth, -3, 3, 5);
  for (const auto& c : cases) {
    std::vector<PackedWeight> weights;
    for (uint32_t e = 0; e < counts.size(); ++e)
      weights.push_back(random_weight(spec_of(c.layout, 70, kDepth), e));
    const Converted converted(x, kRows, kDepth, c.form, pool_);
    std::vector<GroupedJob> jobs;
    int64_t first = 0;
    for (size_t e = 0; e < counts.size(); ++e) {
      if (counts[e] > 0) jobs.push_back({&weights[e], first, counts[e], kOrigin});
      first += counts[e];
    }
    ASSERT_EQ(first, kRows);
    constexpr int64_t kStride = kOrigin + kColumns;
    AlignedFloats out(kRows * kStride), single(kStride);
    std::fill_n(out.data(), kRows * kStride, 7.0f);
    grouped_matmul(converted.view(), jobs, {out.data(), kRows, kStride, kStride}, pool_);
    for (const GroupedJob& group : jobs) {
      for (int64_t row = group.first_row; row < group.first_row + group.rows; ++row) {
        const std::vector<float> alone(x.begin() + row * kDepth, x.begin() + (row + 1) * kDepth);
        const Converted one(alone, 1, kDepth, c.form, pool_);
        MatmulJob job;
        job.weight = group.weight;
        job.out = single.data();
        job.out_stride = kStride;
        matmul(one.view(), std::span(&job, 1), pool_);
        ASSERT_TRUE(same_bits(out.data() + row * kStride + kOrigin, single.data(), 70))
            << weight_layout_name(c.layout) << " row " << row;
        EXPECT_EQ(out.data()[row * kStride], 7.0f) << "columns before stay";
      }
    }
  }
}

TEST_P(GroupedMatmulTest, RowsAreConvertedWhereverTheyComeFrom) {
  constexpr int64_t kDepth = 80;
  const std::vector<float> x = random_floats(4 * kDepth, -3, 3, 6);
  const std::vector<int32_t> source = {3, 0, 0, 2, 1, 3};
  std::vector<float> gathered;
  for (const int32_t row : source)
    gathered.insert(gathered.end(), x.begin() + row * kDepth, x.begin() + (row + 1) * kDepth);
  for (const FormCase& form :
       {FormCase{ActivationForm::kF32}, FormCase{ActivationForm::kBF16}, kMixedCodes}) {
    const WideGroups wide = form.groups(kDepth);
    ActivationBuffer out(6, kDepth);
    convert_rows({x.data(), 4, kDepth, kDepth}, source, {form.form, &wide}, out, pool_);
    EXPECT_TRUE(same_activations(out.view(), Converted(gathered, 6, kDepth, form, pool_).view()));
  }
}

PAGODA_PER_ISA(GroupedMatmulTest);

}  // namespace
}  // namespace pagoda::kernels
