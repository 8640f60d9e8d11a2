// Rows of activations in the form that a weight layout multiplies with.
//
// kInt8 (for kW8 and kW4): symmetric int8 per group of 32: x ~= scale * code, code in [-127, 127], scale =
// max|x| / 127. The sums of the codes per 16 go with them for zero points, scale * sum per 32 for offsets.
// kInt16 (for the same): code = 256 * high + low in two int8 planes, scale = max|x| / 32512; both planes run
// through the 8-bit dot products, and their integer sums are put together before any rounding.
// kBF16 (for kBF16) rounds to nearest even. kF32 (for kF32) is the plain rows. Each row is converted by
// itself, so a row's form does not depend on the batch.
#pragma once

#include <cstdint>

#include "base/thread_pool.h"
#include "tensor/packed_weight.h"

namespace pagoda::kernels {

enum class ActivationForm : uint8_t { kF32, kBF16, kInt8, kInt16 };

inline constexpr int kActivationGroup = 32;  // one scale
inline constexpr int kActivationSum = 16;    // one code sum: the smallest weight group

constexpr bool is_coded(ActivationForm form) {
  return form == ActivationForm::kInt8 || form == ActivationForm::kInt16;
}

// The form for a layout; `coded` (kInt8 or kInt16) is what kW8 and kW4 shall get.
constexpr ActivationForm activation_form(WeightLayout layout, ActivationForm coded = ActivationForm::kInt8) {
  return layout == WeightLayout::kF32    ? ActivationForm::kF32
         : layout == WeightLayout::kBF16 ? ActivationForm::kBF16
                                         : coded;
}

// A view of `rows` activation rows of padded depth `depth` (a multiple of 32; columns past the real depth are
// zero). Only the members of `form` are set. Row r of codes is codes + r * depth (kInt16: codes + 2 * r *
// depth, the high plane and then the low one), of scales scales + r * depth / 32, ...
struct Activations {
  ActivationForm form = ActivationForm::kF32;
  int64_t rows = 0;
  int64_t depth = 0;
  const float* f32 = nullptr;          // [rows, depth]
  const uint16_t* bf16 = nullptr;      // [rows, depth]
  const int8_t* codes = nullptr;       // [rows, planes, depth]
  const float* scales = nullptr;       // [rows, depth / 32]
  const int32_t* sums = nullptr;       // [rows, depth / 16]
  const float* scaled_sums = nullptr;  // [rows, depth / 32]: scale * sum of the group's codes
};

// Scratch for one Activations in any form; allocated once for the largest batch. Move-only.
class ActivationBuffer {
 public:
  ActivationBuffer() = default;
  ActivationBuffer(int64_t max_rows, int64_t max_depth);

  // Starts filling `rows` rows of padded depth round_up(depth, 32) in `form`; zeroes nothing.
  void begin(ActivationForm form, int64_t rows, int64_t depth) noexcept;
  // Converts one row of `depth` floats (the depth of begin()), pads it with zeros. Rows may be written from
  // different threads. `row_values` may be unaligned and must not alias the buffer.
  void write_row(int64_t row, const float* row_values) noexcept;
  // The same in pieces, for producers that compute a row bit by bit: columns [first, first + count). `first`
  // is a multiple of 32, and so is `count` unless the piece ends the row.
  void write_columns(int64_t row, int64_t first, const float* values, int64_t count) noexcept;
  const Activations& view() const noexcept { return view_; }

 private:
  // `groups` whole groups whose first element is element `at` of [rows, depth], in row `row`.
  void quantize(int64_t row, int64_t at, const float* values, int64_t groups) noexcept;
  Activations view_;
  int64_t depth_ = 0;
  int64_t max_rows_ = 0, max_depth_ = 0;
  AlignedBuffer data_, scales_, sums_, scaled_sums_;
};

// Converts `rows` rows (row r at x + r * stride) on all threads.
void convert_activations(const float* x, int64_t rows, int64_t depth, int64_t stride, ActivationForm form,
                         ActivationBuffer& out, ComputePool& pool) noexcept;

}  // namespace pagoda::kernels
