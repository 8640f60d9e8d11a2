#include "tensor/packed_weight.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "tensor/half.h"

namespace pagoda {
namespace {

constexpr size_t kHalfRow = kPanelRows * sizeof(uint16_t);  // 32 scales or offsets

void store_half(uint8_t* at, int row, float value) {
  const uint16_t bits = f32_to_f16(value);
  std::memcpy(at + static_cast<size_t>(row) * 2, &bits, 2);
}

float load_half(const uint8_t* at, int row) {
  uint16_t bits;
  std::memcpy(&bits, at + static_cast<size_t>(row) * 2, 2);
  return f16_to_f32(bits);
}

// Byte and shift of code (row, k) inside a group's code area.
struct CodePlace {
  size_t byte;
  int shift;
};
CodePlace code_place(WeightLayout layout, int row, int64_t k) {
  const auto r = static_cast<size_t>(row), kk = static_cast<size_t>(k);
  if (layout == WeightLayout::kW8) return {kk / 4 * 128 + r * 4 + kk % 4, 0};
  return {kk / 8 * 128 + r * 4 + kk % 4, kk % 8 < 4 ? 0 : 4};
}

// Rows are copied in short runs of columns, so that the lines written to stay in the first-level cache.
constexpr int64_t kRun = 16;

void pack_f32(const PanelSource& source, int64_t depth, uint8_t* out, size_t bytes) {
  if (source.num_rows < kPanelRows || depth % kDepthMultiple != 0) std::memset(out, 0, bytes);
  for (int64_t first = 0; first < depth; first += kRun) {
    const int64_t last = std::min(first + kRun, depth);
    for (int64_t row = 0; row < source.num_rows; ++row) {
      const float* const values = source.values + row * source.value_stride;
      for (int64_t k = first; k < last; ++k) std::memcpy(out + (k * kPanelRows + row) * 4, values + k, 4);
    }
  }
}

void pack_bf16(const PanelSource& source, int64_t depth, uint8_t* out, size_t bytes) {
  if (source.num_rows < kPanelRows || depth % kDepthMultiple != 0) std::memset(out, 0, bytes);
  for (int64_t first = 0; first < depth; first += kRun) {
    const int64_t last = std::min(first + kRun, depth);
    for (int64_t row = 0; row < source.num_rows; ++row) {
      const float* const values = source.values + row * source.value_stride;
      for (int64_t k = first; k < last; k += 2) {
        const uint16_t pair[2] = {f32_to_bf16(values[k]),
                                  k + 1 < depth ? f32_to_bf16(values[k + 1]) : uint16_t{0}};
        std::memcpy(out + (k / 2 * kPanelRows + row) * 4, pair, 4);
      }
    }
  }
}

// The codes of one group, which begins at column `first`: four (kW8) or eight (kW4) of a row become one word.
void pack_group_codes(const PackedWeightSpec& spec, const PanelSource& source, int64_t first, uint8_t* out) {
  // Padding must be zero weights: with a zero point that is the code zero_point under any scale.
  const auto padding = static_cast<uint8_t>(spec.zero_point);
  uint8_t padded[128];  // the widest group
  std::memset(padded, padding, sizeof(padded));
  const auto real_columns = static_cast<size_t>(std::clamp<int64_t>(spec.depth - first, 0, spec.group_size));
  const bool whole = real_columns == static_cast<size_t>(spec.group_size);
  for (int64_t row = 0; row < kPanelRows; ++row) {
    const uint8_t* codes = padded;
    if (row < source.num_rows) {
      codes = source.codes + row * source.code_stride + first;
      if (!whole) {
        if (real_columns > 0) std::memcpy(padded, codes, real_columns);
        codes = padded;
      }
    } else {
      std::memset(padded, padding, sizeof(padded));
    }
    uint8_t* const words = out + row * 4;
    if (spec.layout == WeightLayout::kW8) {
      for (int64_t k = 0; k < spec.group_size; k += 4) std::memcpy(words + k * kPanelRows, codes + k, 4);
    } else {
      for (int64_t k = 0; k < spec.group_size; k += 8) {
        uint32_t low, high;
        std::memcpy(&low, codes + k, 4);
        std::memcpy(&high, codes + k + 4, 4);
        const uint32_t word = low | high << 4;
        std::memcpy(words + k / 2 * kPanelRows, &word, 4);
      }
    }
  }
}

}  // namespace

std::string_view weight_layout_name(WeightLayout layout) {
  switch (layout) {
    case WeightLayout::kF32:
      return "f32";
    case WeightLayout::kBF16:
      return "bf16";
    case WeightLayout::kW8:
      return "w8";
    case WeightLayout::kW4:
      return "w4";
  }
  return "?";
}

PackedWeight::PackedWeight(const PackedWeightSpec& spec) : spec_(spec) {
  PAGODA_CHECK(spec.rows > 0 && spec.depth > 0, "shape {} x {}", spec.rows, spec.depth);
  const auto depth = static_cast<size_t>(padded_depth());
  switch (spec.layout) {
    case WeightLayout::kF32:
      panel_bytes_ = depth * kPanelRows * 4;
      break;
    case WeightLayout::kBF16:
      panel_bytes_ = depth * kPanelRows * 2;
      break;
    case WeightLayout::kW8:
    case WeightLayout::kW4: {
      const int g = spec.group_size;
      PAGODA_CHECK(g == 16 || g == 32 || g == 64 || g == 128, "group size {}", g);
      PAGODA_CHECK(padded_depth() % g == 0, "depth {} is not a multiple of the group size {}", padded_depth(),
                   g);
      PAGODA_CHECK(spec.zero_point >= 0 && spec.zero_point <= (spec.layout == WeightLayout::kW8 ? 255 : 15));
      PAGODA_CHECK(!spec.has_offsets || spec.zero_point == 0, "offsets and a zero point exclude each other");
      panel_bytes_ = depth / static_cast<size_t>(g) * group_bytes();
      break;
    }
  }
  data_ = AlignedBuffer(panel_bytes_ * static_cast<size_t>(num_panels()));
}

size_t PackedWeight::group_bytes() const noexcept {
  const size_t code_bytes =
      static_cast<size_t>(spec_.group_size) * kPanelRows / (spec_.layout == WeightLayout::kW4 ? 2 : 1);
  return kHalfRow * (spec_.has_offsets ? 2 : 1) + code_bytes;
}

void PackedWeight::pack_panel(int64_t index, const PanelSource& source) noexcept {
  uint8_t* const out = data_.data() + static_cast<size_t>(index) * panel_bytes_;
  switch (spec_.layout) {
    case WeightLayout::kF32:
      return pack_f32(source, spec_.depth, out, panel_bytes_);
    case WeightLayout::kBF16:
      return pack_bf16(source, spec_.depth, out, panel_bytes_);
    case WeightLayout::kW8:
    case WeightLayout::kW4:
      break;
  }
  const int64_t group = spec_.group_size, num_groups = padded_depth() / group;
  const size_t scale_bytes = kHalfRow * (spec_.has_offsets ? 2 : 1);
  for (int64_t g = 0; g < num_groups; ++g) {
    uint8_t* const scales = out + static_cast<size_t>(g) * group_bytes();
    std::memset(scales, 0, scale_bytes);
    for (int row = 0; row < source.num_rows; ++row) {
      store_half(scales, row, source.scales[row * num_groups + g]);
      if (spec_.has_offsets) store_half(scales + kHalfRow, row, source.offsets[row * num_groups + g]);
    }
    pack_group_codes(spec_, source, g * group, scales + scale_bytes);
  }
}

void PackedWeight::unpack_row(int64_t row, std::span<float> out) const noexcept {
  PAGODA_CHECK(row >= 0 && row < spec_.rows && out.size() >= static_cast<size_t>(spec_.depth));
  const uint8_t* const base = panel(row / kPanelRows);
  const int r = static_cast<int>(row % kPanelRows);
  for (int64_t k = 0; k < spec_.depth; ++k) {
    const auto kk = static_cast<size_t>(k);
    float& w = out[kk];
    if (spec_.layout == WeightLayout::kF32) {
      std::memcpy(&w, base + (kk * kPanelRows + static_cast<size_t>(r)) * 4, 4);
    } else if (spec_.layout == WeightLayout::kBF16) {
      uint16_t bits;
      std::memcpy(&bits, base + (kk / 2 * kPanelRows * 2 + static_cast<size_t>(r) * 2 + kk % 2) * 2, 2);
      w = bf16_to_f32(bits);
    } else {
      const uint8_t* const scales = base + kk / static_cast<size_t>(spec_.group_size) * group_bytes();
      const uint8_t* const codes = scales + kHalfRow * (spec_.has_offsets ? 2 : 1);
      const CodePlace place = code_place(spec_.layout, r, k % spec_.group_size);
      const int code = codes[place.byte] >> place.shift & (spec_.layout == WeightLayout::kW4 ? 15 : 255);
      w = load_half(scales, r) * spec_.scale_multiplier * static_cast<float>(code - spec_.zero_point);
      if (spec_.has_offsets) w += load_half(scales + kHalfRow, r) * spec_.offset_multiplier;
    }
  }
}

float f16_multiplier(float max_abs) {
  if (!(max_abs > 0) || !std::isfinite(max_abs)) return 1.0f;
  return std::ldexp(1.0f, std::ilogb(max_abs) - 9);
}

}  // namespace pagoda
