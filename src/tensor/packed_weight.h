// The layouts that the matmul kernels know. Every file format becomes one of them at load (DESIGN.md
// principle 3): floats, or codes of 4 to 8 bits. Decoding is as fast as the weights are read, so codes of 5
// and 6 bits (Q5_0, Q5_K, Q6_K) don't take a byte each.
//
// A weight matrix W has N rows (outputs) and K columns (inputs, the depth). It is stored in panels of 32
// rows; N is padded to a multiple of 32 with zero rows, K to a multiple of 32 with zero columns, so kernels
// need no tails.
//
//   kF32   per panel, per k:          32 float                                     w = value
//   kBF16  per panel, per pair of k:  [32][2] bfloat16                             w = value
//   kW8    per panel, per group:      32 f16 scales, [32 f16 offsets], then per 4 k: [32][4] uint8 codes
//   kW4    per panel, per group:      32 f16 scales, [32 f16 offsets], then per 8 k: 128 bytes; byte [n][j],
//   j = 0..3,
//                                     holds code(n, k + j) in the low nibble and code(n, k + 4 + j) in the
//                                     high one
//   kW6    as kW4, and after the low four bits of 16 k: 128 bytes; byte [n][j] holds the high two bits of
//                                     code(n, k + 4 i + j) from bit 2 i on, i = 0..3
//   kW5    as kW4, and after the low four bits of 32 k: 128 bytes; byte [n][j] holds the fifth bit of
//                                     code(n, k + 4 i + j) as bit i, i = 0..7
//
// In all four:  w = scale_multiplier * scale * (code - zero_point) + offset_multiplier * offset.
// The multipliers are powers of two, one per matrix, that keep the f16 scales in their normal range. Offsets
// are stored only when has_offsets (Q4_1, Q4_K, ...); otherwise the zero point is one integer for the whole
// matrix (Q4_0: 8). One 64-byte load is two ready operands of vpdpbusd. Source of the layout: KERNELS.md
// section 2.3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "tensor/aligned_buffer.h"

namespace pagoda {

enum class WeightLayout : uint8_t { kF32, kBF16, kW8, kW6, kW5, kW4 };
// Counts every change of what a panel's bytes mean or of how files become codes and scales: panels kept on
// disk by another count are packed again.
inline constexpr int kPackedLayoutVersion = 2;
std::string_view weight_layout_name(WeightLayout layout);  // "f32", "bf16", "w8", "w6", "w5", "w4"

// Bits of one code; 0 for floats.
constexpr int code_bits(WeightLayout layout) {
  switch (layout) {
    case WeightLayout::kW8:
      return 8;
    case WeightLayout::kW6:
      return 6;
    case WeightLayout::kW5:
      return 5;
    case WeightLayout::kW4:
      return 4;
    case WeightLayout::kF32:
    case WeightLayout::kBF16:
      break;
  }
  return 0;
}

inline constexpr int kPanelRows = 32;      // two zmm of 32-bit lanes
inline constexpr int kDepthMultiple = 32;  // K is padded to this

constexpr int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

struct PackedWeightSpec {
  WeightLayout layout = WeightLayout::kF32;
  int64_t rows = 0;          // N
  int64_t depth = 0;         // K
  int group_size = 32;       // of codes: 16 (not kW5), 32, 64 or 128; divides the padded depth
  bool has_offsets = false;  // of codes
  int zero_point = 0;        // of codes without offsets: one of the codes
  float scale_multiplier = 1.0f;
  float offset_multiplier = 1.0f;

  int64_t padded_rows() const noexcept { return round_up(rows, kPanelRows); }
  int64_t padded_depth() const noexcept { return round_up(depth, kDepthMultiple); }
};

// Rows of one panel before packing. Codes: row r at codes + r * code_stride (one byte per code, whatever its
// bits); scales and offsets: row r at + r * (padded depth / group_size), already divided by the multipliers.
// Float rows for kF32 and kBF16 at values + r * value_stride. Rows from num_rows to 31, and columns from
// depth on, are filled with zero weights.
struct PanelSource {
  int num_rows = kPanelRows;
  const uint8_t* codes = nullptr;
  int64_t code_stride = 0;
  const float* scales = nullptr;
  const float* offsets = nullptr;
  const float* values = nullptr;
  int64_t value_stride = 0;
};

// A matrix in panels. The bytes belong to whoever made the memory, mostly to the one arena of a model; every
// weight keeps its memory alive, and so do copies, which share it. Immutable once packed; kernels read it
// from any thread.
class PackedWeight {
 public:
  PackedWeight() = default;
  // Allocates zeroed panels of its own. PAGODA_CHECKs the spec.
  explicit PackedWeight(const PackedWeightSpec& spec);
  // Panels at `panels`, which has bytes_for(spec) bytes at a 64-byte boundary: to be packed, or packed
  // before.
  PackedWeight(const PackedWeightSpec& spec, std::shared_ptr<uint8_t> panels);
  PackedWeight(const PackedWeightSpec& spec, std::shared_ptr<const uint8_t> panels);

  // What the panels of such a weight take. PAGODA_CHECKs the spec.
  static size_t bytes_for(const PackedWeightSpec& spec);

  const PackedWeightSpec& spec() const noexcept { return spec_; }
  WeightLayout layout() const noexcept { return spec_.layout; }
  int64_t rows() const noexcept { return spec_.rows; }
  int64_t depth() const noexcept { return spec_.depth; }
  int64_t padded_rows() const noexcept { return spec_.padded_rows(); }
  int64_t padded_depth() const noexcept { return spec_.padded_depth(); }
  int64_t num_panels() const noexcept { return padded_rows() / kPanelRows; }
  size_t panel_bytes() const noexcept { return panel_bytes_; }
  size_t bytes() const noexcept { return panel_bytes_ * static_cast<size_t>(num_panels()); }
  const uint8_t* panel(int64_t index) const noexcept {
    return panels_.get() + static_cast<size_t>(index) * panel_bytes_;
  }

  // Fills one panel, every byte of it. Different panels may be packed from different threads at once.
  void pack_panel(int64_t index, const PanelSource& source) noexcept;
  // Dequantises row `row` into out[0, depth()): the exact weights that the kernels multiply with.
  void unpack_row(int64_t row, std::span<float> out) const noexcept;

 private:
  PackedWeightSpec spec_;
  size_t panel_bytes_ = 0;
  std::shared_ptr<const uint8_t> panels_;
  uint8_t* writable_ = nullptr;  // the same bytes, or null when they must not be written
};

// The power of two m for which max_abs / m is at most 2^10: f16 keeps 11 bits for values 2^24 times smaller.
float f16_multiplier(float max_abs);

}  // namespace pagoda
