#include "kernels/matmul.h"

#include <gtest/gtest.h>

#include "kernels/tests/kernel_test_support.h"
#include "tensor/half.h"

namespace pagoda::kernels {
namespace {

using namespace testing;

PackedWeightSpec spec_of(WeightLayout layout, int64_t rows, int64_t depth, int group = 32,
                         bool offsets = false) {
  PackedWeightSpec spec;
  spec.layout = layout;
  spec.rows = rows;
  spec.depth = depth;
  spec.group_size = group;
  spec.has_offsets = offsets;
  if (!offsets && code_bits(layout) > 0) spec.zero_point = 1 << (code_bits(layout) - 1);
  spec.scale_multiplier = 0.0078125f;
  spec.offset_multiplier = 0.03125f;
  return spec;
}

constexpr WeightLayout kCodedLayouts[] = {WeightLayout::kW8, WeightLayout::kW6, WeightLayout::kW5,
                                          WeightLayout::kW4};

std::vector<int> groups_of(WeightLayout layout) {
  if (layout == WeightLayout::kW5) return {32, 64, 128};
  return {16, 32, 64, 128};
}

std::vector<PackedWeightSpec> all_specs(int64_t rows, int64_t depth) {
  std::vector<PackedWeightSpec> specs = {spec_of(WeightLayout::kF32, rows, depth),
                                         spec_of(WeightLayout::kBF16, rows, depth)};
  for (const WeightLayout layout : kCodedLayouts) {
    for (const int group : groups_of(layout)) {
      for (const bool offsets : {false, true}) specs.push_back(spec_of(layout, rows, depth, group, offsets));
    }
  }
  return specs;
}

std::string name_of(const PackedWeightSpec& s) {
  return std::string(weight_layout_name(s.layout)) + " " + std::to_string(s.rows) + "x" +
         std::to_string(s.depth) + " g" + std::to_string(s.group_size) + (s.has_offsets ? " offsets" : "") +
         " z" + std::to_string(s.zero_point);
}

// Activation rows with outliers, one row of zeros, and rows whose codes are all -127 or 127.
std::vector<float> random_rows(int64_t rows, int64_t depth, uint32_t seed) {
  std::vector<float> x = random_floats(static_cast<size_t>(rows * depth), -1.0f, 1.0f, seed);
  std::mt19937 random(seed);
  for (auto& value : x) {
    if (random() % 64 == 0) value *= 20;
  }
  for (int64_t r = 0; r < rows; ++r) {
    float* const row = x.data() + r * depth;
    if (r % 7 == 3) std::fill_n(row, depth, 0.0f);
    if (r % 7 == 4) std::fill_n(row, depth, 1.5f);
    if (r % 7 == 5) {
      for (int64_t k = 0; k < depth; ++k) row[k] = k % 2 == 0 ? 2.0f : -2.0f;
    }
  }
  return x;
}

std::vector<FormCase> forms_of(WeightLayout layout) {
  const ActivationForm form = activation_form(layout);
  if (form != ActivationForm::kCoded) return {FormCase{form}};
  return {kNarrowCodes, kMixedCodes, kWideCodes};
}

class MatmulTest : public PerIsa {
 protected:
  ComputePool pool_{2};

  // Compares out with a double reference over the same converted activations and the same packed weights. The
  // bound is that of `steps` float operations on terms whose magnitudes sum to `magnitude` (Higham 2002,
  // chapter 3).
  void expect_close(const Activations& x, const PackedWeight& w, const float* out, int64_t stride,
                    const std::vector<float>& bias, const std::vector<float>& before) {
    std::vector<float> row(static_cast<size_t>(w.depth()));
    // Two float terms per group of 16 at most, and the rounding of the group's integer sum.
    const int64_t terms = x.form == ActivationForm::kCoded ? 3 * x.depth / 16 : x.depth;
    double worst = 0;
    std::string where;
    for (int64_t n = 0; n < w.rows(); ++n) {
      w.unpack_row(n, row);
      for (int64_t m = 0; m < x.rows; ++m) {
        double sum = 0, magnitude = 0;
        for (int64_t k = 0; k < w.depth(); ++k) {
          const double term = value_at(x, m, k) * static_cast<double>(row[static_cast<size_t>(k)]);
          sum += term;
          magnitude += std::abs(term);
        }
        // With offsets the two parts of a weight may cancel; each is at most 255 scales and one offset large.
        if (w.spec().has_offsets) magnitude += offset_magnitude(x, m, w, row);
        if (!bias.empty()) sum += static_cast<double>(bias[static_cast<size_t>(n)]);
        if (!bias.empty()) magnitude += std::abs(static_cast<double>(bias[static_cast<size_t>(n)]));
        if (!before.empty()) sum += static_cast<double>(before[static_cast<size_t>(m * stride + n)]);
        if (!before.empty())
          magnitude += std::abs(static_cast<double>(before[static_cast<size_t>(m * stride + n)]));
        const double bound = static_cast<double>(terms + 4) * 0x1p-24 * magnitude + 1e-30;
        const double error = std::abs(static_cast<double>(out[m * stride + n]) - sum) / bound;
        if (!(error <= worst)) {
          worst = error;
          where = "row " + std::to_string(m) + " column " + std::to_string(n) + " got " +
                  std::to_string(out[m * stride + n]) + " expected " + std::to_string(sum);
        }
      }
    }
    EXPECT_LE(worst, 1.0) << name_of(w.spec()) << " rows " << x.rows << ": " << where;
  }

  static double offset_magnitude(const Activations& x, int64_t m, const PackedWeight& w,
                                 const std::vector<float>& row) {
    double total = 0;
    for (int64_t k = 0; k < w.depth(); ++k) {
      const double largest = 3.0 * static_cast<double>(w.spec().offset_multiplier);  // of random_weight()
      total += std::abs(value_at(x, m, k)) *
               (std::abs(static_cast<double>(row[static_cast<size_t>(k)])) + 2 * largest);
    }
    return total;
  }

  void run_case(const PackedWeightSpec& spec, int64_t rows, bool with_bias, bool accumulate) {
    const PackedWeight w = random_weight(spec, 5);
    const std::vector<float> x = random_rows(rows, spec.depth, 17);
    for (const FormCase& form : forms_of(spec.layout)) {
      const Converted in(x, rows, spec.depth, form, pool_);
      run_converted(in, w, with_bias, accumulate);
    }
  }

  void run_converted(const Converted& in, const PackedWeight& w, bool with_bias, bool accumulate) {
    const int64_t rows = in.buffer.view().rows;
    const int64_t stride = w.padded_rows() + 16;
    AlignedFloats out(static_cast<size_t>(rows * stride));
    const std::vector<float> before = random_floats(static_cast<size_t>(rows * stride), -5, 5, 3);
    std::copy(before.begin(), before.end(), out.data());
    const std::vector<float> bias =
        with_bias ? random_floats(static_cast<size_t>(w.rows()), -2, 2, 4) : std::vector<float>{};
    const MatmulJob job{&w, with_bias ? bias.data() : nullptr, out.data(), stride, accumulate};
    matmul(in.buffer.view(), {&job, 1}, pool_);
    expect_close(in.buffer.view(), w, out.data(), stride, bias, accumulate ? before : std::vector<float>{});
    for (int64_t m = 0; m < rows; ++m) {  // nothing past the padded columns is touched
      for (int64_t n = w.padded_rows(); n < stride; ++n) {
        ASSERT_EQ(out.data()[m * stride + n], before[static_cast<size_t>(m * stride + n)]);
      }
    }
  }
};

TEST_P(MatmulTest, MatchesADoubleReferenceOnEveryLayout) {
  for (const PackedWeightSpec& spec : all_specs(67, 256)) {
    for (const int64_t rows : {1, 2, 3, 4, 5, 8, 9, 17}) {
      run_case(spec, rows, rows % 2 == 0, rows % 3 == 0);
    }
  }
}

TEST_P(MatmulTest, OneGroupThreeGroupsAndManyGroups) {
  for (const WeightLayout layout : kCodedLayouts) {
    for (const int group : groups_of(layout)) {
      for (const int64_t groups : {1, 3, 4096 / group + 1}) {
        const int64_t depth = round_up(group * groups, 32);
        if (depth % group != 0) continue;
        run_case(spec_of(layout, 32, depth, group), 3, false, false);
        run_case(spec_of(layout, 32, depth, group, true), 3, false, false);
      }
    }
  }
}

TEST_P(MatmulTest, OddShapesOfFloatLayouts) {
  for (const WeightLayout layout : {WeightLayout::kF32, WeightLayout::kBF16}) {
    for (const int64_t depth : {1, 2, 31, 33, 63, 65, 100}) {
      for (const int64_t n : {1, 31, 33}) run_case(spec_of(layout, n, depth), 2, true, true);
    }
  }
}

TEST_P(MatmulTest, DepthsThatAreNotWholeGroupsOfTheSource) {
  run_case(spec_of(WeightLayout::kW8, 40, 40), 5, true, false);
  run_case(spec_of(WeightLayout::kW6, 40, 40, 16), 5, true, false);
  run_case(spec_of(WeightLayout::kW5, 40, 100), 5, true, false);
  run_case(spec_of(WeightLayout::kW4, 40, 100, 16), 5, true, false);
  run_case(spec_of(WeightLayout::kW4, 40, 100, 32, true), 5, true, false);
}

TEST_P(MatmulTest, ExtremeZeroPoints) {
  for (const WeightLayout layout : kCodedLayouts) {
    const int top = (1 << code_bits(layout)) - 1;
    for (const int zero : {0, 1, top / 2, top}) {
      PackedWeightSpec spec = spec_of(layout, 33, 128);
      spec.zero_point = zero;
      run_case(spec, 7, false, false);
    }
  }
}

// The integer part is exact: with all scales 1 and few enough terms for a float the result is the integer
// product. Codes at both ends against activations at both ends would overflow any saturating 16-bit sum.
TEST_P(MatmulTest, IntegerPartIsExactAtTheEndsOfTheRange) {
  std::mt19937 random(23);
  for (const WeightLayout layout : kCodedLayouts) {
    for (const int group : groups_of(layout)) {
      for (const int zero : {0, (1 << code_bits(layout)) - 1}) {
        const int64_t depth = 128;
        PackedWeightSpec spec = spec_of(layout, 32, depth, group);
        spec.zero_point = zero;
        spec.scale_multiplier = 1;
        PackedWeight w(spec);
        const int top = (1 << code_bits(layout)) - 1;
        std::vector<uint8_t> codes(32 * 128);
        for (size_t i = 0; i < codes.size(); ++i) {
          const size_t row = i / 128;
          codes[i] = static_cast<uint8_t>(row == 0       ? top
                                          : row == 1     ? 0
                                          : row % 2 == 0 ? (random() & 1) * static_cast<unsigned>(top)
                                                         : random() & static_cast<unsigned>(top));
        }
        const std::vector<float> ones(static_cast<size_t>(32 * depth / group), 1.0f);
        PanelSource source;
        source.codes = codes.data();
        source.code_stride = depth;
        source.scales = ones.data();
        w.pack_panel(0, source);
        const int64_t rows = 9;
        std::vector<float> x(static_cast<size_t>(rows * depth));
        for (size_t i = 0; i < x.size(); ++i) {  // scale 1: the largest magnitude of every group of 32 is 127
          const size_t row = i / 128;
          const bool positive = row == 0 || (row != 1 && random() % 2 == 0);
          x[i] = (row < 4 || i % 32 == 0 ? 127.0f : static_cast<float>(random() % 128)) *
                 (positive ? 1.0f : -1.0f);
        }
        const Converted in(x, rows, depth, kNarrowCodes, pool_);
        AlignedFloats out(static_cast<size_t>(rows * 32));
        const MatmulJob job{&w, nullptr, out.data(), 32, false};
        matmul(in.buffer.view(), {&job, 1}, pool_);
        for (size_t m = 0; m < static_cast<size_t>(rows); ++m) {
          for (size_t n = 0; n < 32; ++n) {
            int64_t expected = 0;
            for (size_t k = 0; k < 128; ++k) {
              expected += (codes[n * 128 + k] - zero) * static_cast<int64_t>(x[m * 128 + k]);
            }
            ASSERT_EQ(out.data()[m * 32 + n], static_cast<float>(expected))
                << name_of(spec) << " " << m << " " << n;
          }
        }
      }
    }
  }
}

TEST_P(MatmulTest, ARowIsTheSameBitForBitInEveryBatchAndOnAnyNumberOfThreads) {
  ComputePool one(1), three(3);
  const std::vector<int64_t> batches = {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64};
  const std::vector<float> bias = random_floats(200, -1, 1, 9);
  const auto check = [&](const PackedWeightSpec& spec, const FormCase& form) {
    const PackedWeight w = random_weight(spec, 31);
    const int64_t stride = w.padded_rows();
    const std::vector<float> x = random_rows(64, spec.depth, 7);
    AlignedFloats alone(static_cast<size_t>(64 * stride));
    for (int64_t m = 0; m < 64; ++m) {
      const std::vector<float> row(x.begin() + m * spec.depth, x.begin() + (m + 1) * spec.depth);
      const Converted in(row, 1, spec.depth, form, one);
      const MatmulJob job{&w, bias.data(), alone.data() + m * stride, stride, true};
      matmul(in.buffer.view(), {&job, 1}, one);
    }
    for (const int64_t rows : batches) {
      const Converted in(x, rows, spec.depth, form, three);
      AlignedFloats out(static_cast<size_t>(rows * stride));
      const MatmulJob job{&w, bias.data(), out.data(), stride, true};
      matmul(in.buffer.view(), {&job, 1}, rows % 2 == 0 ? three : one);
      ASSERT_TRUE(same_bits(out.data(), alone.data(), static_cast<size_t>(rows * stride)))
          << name_of(spec) << " batch of " << rows;
    }
  };
  for (const PackedWeightSpec& spec : all_specs(200, 384)) {
    for (const FormCase& form : forms_of(spec.layout)) check(spec, form);
  }
}

// 16-bit activations are there for accuracy: the product must come 100 times closer to that of the unrounded
// rows.
TEST_P(MatmulTest, SixteenBitActivationsAreFarMoreExact) {
  const PackedWeight w = random_weight(spec_of(WeightLayout::kW4, 64, 1024, 32), 21);
  const std::vector<float> x = random_floats(4 * 1024, -1, 1, 22);
  const auto error = [&](const FormCase& form) {
    const Converted in(x, 4, 1024, form, pool_);
    AlignedFloats out(4 * 64);
    const MatmulJob job{&w, nullptr, out.data(), 64, false};
    matmul(in.buffer.view(), {&job, 1}, pool_);
    std::vector<float> row(1024);
    double squares = 0;
    for (int64_t n = 0; n < 64; ++n) {
      w.unpack_row(n, row);
      for (int64_t m = 0; m < 4; ++m) {
        double exact = 0;
        for (size_t k = 0; k < 1024; ++k) {
          exact += static_cast<double>(row[k]) * static_cast<double>(x[static_cast<size_t>(m) * 1024 + k]);
        }
        squares += std::pow(exact - static_cast<double>(out.data()[m * 64 + n]), 2);
      }
    }
    return std::sqrt(squares);
  };
  EXPECT_LT(error(kWideCodes) * 100, error(kNarrowCodes));
}

TEST_P(MatmulTest, SeveralJobsInOneCallEqualSeparateCalls) {
  const std::vector<PackedWeight> weights = [] {
    std::vector<PackedWeight> list;
    list.push_back(random_weight(spec_of(WeightLayout::kW4, 96, 256), 1));
    list.push_back(random_weight(spec_of(WeightLayout::kW8, 33, 256, 64), 2));
    list.push_back(random_weight(spec_of(WeightLayout::kW4, 640, 256, 32, true), 3));
    list.push_back(random_weight(spec_of(WeightLayout::kW6, 64, 256, 16), 4));
    list.push_back(random_weight(spec_of(WeightLayout::kW5, 160, 256), 5));
    return list;
  }();
  const std::vector<float> x = random_rows(6, 256, 2);
  const Converted in(x, 6, 256, kNarrowCodes, pool_);
  std::vector<AlignedFloats> together, apart;
  std::vector<MatmulJob> jobs;
  for (const PackedWeight& w : weights) {
    const auto size = static_cast<size_t>(6 * w.padded_rows());
    together.emplace_back(size);
    apart.emplace_back(size);
    jobs.push_back({&w, nullptr, together.back().data(), w.padded_rows(), false});
    const MatmulJob job{&w, nullptr, apart.back().data(), w.padded_rows(), false};
    matmul(in.buffer.view(), {&job, 1}, pool_);
  }
  matmul(in.buffer.view(), jobs, pool_);
  for (size_t i = 0; i < weights.size(); ++i) {
    EXPECT_TRUE(
        same_bits(together[i].data(), apart[i].data(), static_cast<size_t>(6 * weights[i].padded_rows())));
  }
}

TEST_P(MatmulTest, NotANumberInARowShowsInThatRowOnly) {
  for (const PackedWeightSpec& spec : all_specs(32, 128)) {
    const PackedWeight w = random_weight(spec, 8);
    std::vector<float> x = random_floats(3 * 128, -1, 1, 6);
    x[128 + 70] = std::nanf("");
    const Converted in(x, 3, 128, forms_of(spec.layout).back(), pool_);
    AlignedFloats out(3 * 32);
    const MatmulJob job{&w, nullptr, out.data(), 32, false};
    matmul(in.buffer.view(), {&job, 1}, pool_);
    for (int n = 0; n < 32; ++n) {
      EXPECT_TRUE(std::isfinite(out.data()[n]) && std::isfinite(out.data()[64 + n])) << name_of(spec);
      EXPECT_TRUE(std::isnan(out.data()[32 + n])) << name_of(spec);
    }
  }
}

PAGODA_PER_ISA(MatmulTest);

void expect_tiers_agree(const PackedWeightSpec& spec, int64_t rows) {
  ComputePool pool(1);
  const Isa before = current_isa();
  const PackedWeight w = random_weight(spec, 77);
  const auto stride = static_cast<size_t>(w.padded_rows());
  const auto size = static_cast<size_t>(rows) * stride;
  const std::vector<float> x = random_rows(rows, spec.depth, 5);
  for (const FormCase& form : forms_of(spec.layout)) {
    AlignedFloats reference(size);
    for (const Isa isa : supported_isas()) {
      set_isa(isa);
      const Converted in(x, rows, spec.depth, form, pool);
      AlignedFloats out(size);
      const MatmulJob job{&w, nullptr, out.data(), w.padded_rows(), false};
      matmul(in.buffer.view(), {&job, 1}, pool);
      if (isa == Isa::kScalar) std::copy_n(out.data(), size, reference.data());
      EXPECT_TRUE(same_bits(out.data(), reference.data(), size))
          << name_of(spec) << " rows " << rows << " " << isa_name(isa);
    }
  }
  set_isa(before);
}

TEST(MatmulTiers, CodedLayoutsAgreeBitForBit) {
  for (const PackedWeightSpec& spec : all_specs(70, 384)) {
    if (activation_form(spec.layout) == ActivationForm::kCoded) expect_tiers_agree(spec, 9);
  }
}

// The avx2 tier takes the depth in chunks and the rows in batches, and many rows another way than few: 67
// rows are two batches, and 1152 columns several chunks of which the last is shorter.
TEST(MatmulTiers, CodedLayoutsAgreeBitForBitOverChunksAndBatches) {
  for (const PackedWeightSpec& spec : all_specs(32, 1152)) {
    if (activation_form(spec.layout) != ActivationForm::kCoded) continue;
    for (const int64_t rows : {1, 2, 3, 4, 13, 67}) expect_tiers_agree(spec, rows);
  }
}

TEST(MatmulDeathTest, ChecksItsPreconditions) {
  ComputePool pool(1);
  const PackedWeight w = random_weight(spec_of(WeightLayout::kW4, 32, 64), 1);
  ActivationBuffer in(1, 64);
  in.begin({ActivationForm::kBF16}, 1, 64);
  AlignedFloats out(32);
  MatmulJob job{&w, nullptr, out.data(), 32, false};
  EXPECT_DEATH(matmul(in.view(), {&job, 1}, pool), "activations of form");
  const WideGroups short_row = WideGroups::none(32), row = WideGroups::none(64);
  in.begin({ActivationForm::kCoded, &short_row}, 1, 32);
  EXPECT_DEATH(matmul(in.view(), {&job, 1}, pool), "depth 32");
  in.begin({ActivationForm::kCoded, &row}, 1, 64);
  job.out_stride = 24;
  EXPECT_DEATH(matmul(in.view(), {&job, 1}, pool), "stride 24");
  job.out_stride = 32;
  job.out = out.data() + 1;
  EXPECT_DEATH(matmul(in.view(), {&job, 1}, pool), "not aligned");
}

}  // namespace
}  // namespace pagoda::kernels
