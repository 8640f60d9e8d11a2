// What the kernel tests share: tiers, random data, packed weights with their exact values.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/activations.h"
#include "kernels/isa.h"
#include "tensor/half.h"
#include "tensor/packed_weight.h"

namespace pagoda::kernels::testing {

// A test that runs once per tier of this CPU; the tier is put back afterwards.
class PerIsa : public ::testing::TestWithParam<Isa> {
 protected:
  void SetUp() override { set_isa(GetParam()); }
  void TearDown() override { set_isa(before_); }

 private:
  Isa before_ = current_isa();
};

inline std::string isa_test_name(const ::testing::TestParamInfo<Isa>& info) {
  return std::string(isa_name(info.param));
}

#define PAGODA_PER_ISA(suite) \
  INSTANTIATE_TEST_SUITE_P(Tiers, suite, ::testing::ValuesIn(supported_isas()), isa_test_name)

inline std::vector<float> random_floats(size_t count, float low, float high, uint64_t seed) {
  std::mt19937 random(static_cast<uint32_t>(seed));
  std::uniform_real_distribution<float> uniform(low, high);
  std::vector<float> values(count);
  for (float& value : values) value = uniform(random);
  return values;
}

inline bool same_bits(const float* a, const float* b, size_t count) {
  return std::memcmp(a, b, count * sizeof(float)) == 0;
}

// A form to convert to, and for coded rows which of their groups are wide.
struct FormCase {
  enum Width { kNarrow, kMixed, kWide };
  ActivationForm form = ActivationForm::kF32;
  Width width = kNarrow;

  WideGroups groups(int64_t depth) const {
    if (width == kNarrow) return WideGroups::none(depth);
    if (width == kWide) return WideGroups::all(depth);
    std::vector<uint8_t> flags(static_cast<size_t>(round_up(depth, kActivationGroup) / kActivationGroup));
    for (size_t g = 0; g < flags.size(); ++g) flags[g] = g % 3 == 1 || g % 7 == 0;
    return WideGroups(std::move(flags));
  }
};

inline constexpr FormCase kNarrowCodes{ActivationForm::kCoded, FormCase::kNarrow};
inline constexpr FormCase kMixedCodes{ActivationForm::kCoded, FormCase::kMixed};
inline constexpr FormCase kWideCodes{ActivationForm::kCoded, FormCase::kWide};

// Converted rows with the groups they refer to.
struct Converted {
  WideGroups wide;
  ActivationBuffer buffer;
  Converted(ConstRowsView x, const FormCase& form, ComputePool& pool)
      : wide(form.groups(x.width)), buffer(x.rows, x.width) {
    convert_activations(x, {form.form, &wide}, buffer, pool);
  }
  Converted(const std::vector<float>& x, int64_t rows, int64_t depth, const FormCase& form, ComputePool& pool)
      : Converted(ConstRowsView(x.data(), rows, depth, depth), form, pool) {}
  Converted(const Converted&) = delete;
  Converted& operator=(const Converted&) = delete;
  const Activations& view() const { return buffer.view(); }
};

// The value of converted activation (row, k).
inline double value_at(const Activations& x, int64_t row, int64_t k) {
  const int64_t at = row * x.depth + k, group = k / kActivationGroup;
  if (x.form == ActivationForm::kF32) return static_cast<double>(x.f32[at]);
  if (x.form == ActivationForm::kBF16) return static_cast<double>(bf16_to_f32(x.bf16[at]));
  int code = x.codes[at];
  if (x.wide->flags()[group] != 0) {
    const int64_t low = row * x.wide->count() + x.wide->before(group);
    code = 256 * code + x.low_codes[low * kActivationGroup + k % kActivationGroup];
  }
  return static_cast<double>(x.scales[at / kActivationGroup]) * code;
}

// Every byte that a matmul would read.
inline bool same_activations(const Activations& a, const Activations& b) {
  const auto n = static_cast<size_t>(a.rows * a.depth);
  if (a.form != b.form || a.rows != b.rows || a.depth != b.depth) return false;
  if (a.form == ActivationForm::kF32) return std::memcmp(a.f32, b.f32, n * 4) == 0;
  if (a.form == ActivationForm::kBF16) return std::memcmp(a.bf16, b.bf16, n * 2) == 0;
  const auto low = static_cast<size_t>(a.rows * a.wide->count() * kActivationGroup);
  return std::memcmp(a.codes, b.codes, n) == 0 && std::memcmp(a.low_codes, b.low_codes, low) == 0 &&
         std::memcmp(a.scales, b.scales, n / 32 * 4) == 0 && std::memcmp(a.sums, b.sums, n / 16 * 4) == 0 &&
         std::memcmp(a.scaled_sums, b.scaled_sums, n / 32 * 4) == 0;
}

// A floats array aligned to 64 bytes.
struct AlignedFloats {
  explicit AlignedFloats(size_t count) : buffer(count * sizeof(float)) {}
  float* data() { return buffer.as<float>(); }
  AlignedBuffer buffer;
};

// A packed matrix with random contents. Codes reach both ends of their range; some groups have scale zero.
inline PackedWeight random_weight(const PackedWeightSpec& spec, uint32_t seed) {
  PackedWeight weight(spec);
  std::mt19937 random(seed);
  const int64_t depth = spec.depth, groups = weight.padded_depth() / spec.group_size;
  const unsigned top = (1u << code_bits(spec.layout)) - 1;
  for (int64_t panel = 0; panel < weight.num_panels(); ++panel) {
    const auto rows = static_cast<size_t>(std::min<int64_t>(kPanelRows, spec.rows - panel * kPanelRows));
    std::vector<uint8_t> codes(rows * static_cast<size_t>(depth));
    for (auto& code : codes) {
      const auto draw = static_cast<unsigned>(random());
      code = static_cast<uint8_t>(draw % 8 == 0 ? 0 : draw % 8 == 1 ? top : (draw >> 8) & top);
    }
    const size_t num_scales = rows * static_cast<size_t>(groups);
    std::vector<float> scales = random_floats(num_scales, 0.25f, 2.0f, random());
    const std::vector<float> offsets = random_floats(num_scales, -3.0f, 3.0f, random());
    for (auto& scale : scales) scale = random() % 16 == 0 ? 0.0f : random() % 4 == 0 ? -scale : scale;
    const std::vector<float> values = random_floats(codes.size(), -1.0f, 1.0f, random());
    PanelSource source;
    source.num_rows = static_cast<int>(rows);
    source.codes = codes.data();
    source.code_stride = depth;
    source.scales = scales.data();
    source.offsets = offsets.data();
    source.values = values.data();
    source.value_stride = depth;
    weight.pack_panel(panel, source);
  }
  return weight;
}

}  // namespace pagoda::kernels::testing
