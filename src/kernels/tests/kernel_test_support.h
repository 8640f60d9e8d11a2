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
  const unsigned top = spec.layout == WeightLayout::kW4 ? 15 : 255;
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
