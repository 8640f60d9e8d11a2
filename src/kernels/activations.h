// Rows of activations in the form that a weight layout multiplies with.
//
// kCoded (for kW8 and kW4): symmetric int8 per group of 32 columns: x ~= scale * code, code in [-127, 127],
// scale = max|x| / 127. The sums of the codes per 16 go with them for zero points, scale * sum per 32 for
// offsets. Groups that are `wide` get 16 bits: code = 256 * high + low in two int8 bytes, scale = max|x| /
// 32512; both bytes run through the 8-bit dot products, and their integer sums are put together before any
// rounding. Which groups are wide is fixed per weight matrix (model/wide_groups.h chooses them). kBF16 (for
// kBF16) rounds to nearest even. kF32 (for kF32) is the plain rows. Each row is converted by itself, so a
// row's form does not depend on the batch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/rows.h"
#include "tensor/packed_weight.h"

namespace pagoda::kernels {

enum class ActivationForm : uint8_t { kF32, kBF16, kCoded };

inline constexpr int kActivationGroup = 32;  // one scale
inline constexpr int kActivationSum = 16;    // one code sum: the smallest weight group

constexpr ActivationForm activation_form(WeightLayout layout) {
  return layout == WeightLayout::kF32    ? ActivationForm::kF32
         : layout == WeightLayout::kBF16 ? ActivationForm::kBF16
                                         : ActivationForm::kCoded;
}

// Which groups of 32 columns of a coded input carry 16 bits. Immutable; must outlive the activations made
// with it.
class WideGroups {
 public:
  WideGroups() = default;
  // flags[g] = 1: columns [32 g, 32 g + 32) are wide.
  explicit WideGroups(std::vector<uint8_t> flags);
  static WideGroups all(int64_t depth);
  static WideGroups none(int64_t depth);

  int64_t num_groups() const noexcept { return static_cast<int64_t>(flags_.size()); }
  int64_t count() const noexcept { return count_; }
  const uint8_t* flags() const noexcept { return flags_.data(); }
  // Wide groups before group g.
  int64_t before(int64_t g) const noexcept { return before_[static_cast<size_t>(g)]; }

 private:
  std::vector<uint8_t> flags_;
  std::vector<int32_t> before_;
  int64_t count_ = 0;
};

// The order in which a matrix takes the columns of its input: its column j is the input's column order[j].
// Matrices quantised in act-order have their columns sorted by group.
using ColumnOrder = std::vector<int32_t>;

// What an input of a matrix has to be converted to.
struct ActivationSpec {
  ActivationForm form = ActivationForm::kF32;
  const WideGroups* wide = nullptr;    // kCoded: covers the padded depth
  const ColumnOrder* order = nullptr;  // kCoded: of all columns; null: as they come
};

// A view of `rows` activation rows of padded depth `depth` (a multiple of 32; columns past the real depth are
// zero). Only the members of `form` are set.
struct Activations {
  ActivationForm form = ActivationForm::kF32;
  int64_t rows = 0;
  int64_t depth = 0;
  const float* f32 = nullptr;          // [rows, depth]
  const uint16_t* bf16 = nullptr;      // [rows, depth]
  const WideGroups* wide = nullptr;    // of kCoded
  const ColumnOrder* order = nullptr;  // that the columns are in; null: the input's own
  const int8_t* codes = nullptr;       // [rows, depth]
  const int8_t* low_codes = nullptr;   // [rows, 32 * wide->count()]: low bytes of the wide groups
  const float* scales = nullptr;       // [rows, depth / 32]
  const int32_t* sums = nullptr;       // [rows, depth / 16]
  const float* scaled_sums = nullptr;  // [rows, depth / 32]: scale * sum of the group's codes

  // Rows [first, first + count).
  Activations slice(int64_t first, int64_t count) const noexcept;
};

// Scratch for one Activations in any form; allocated once for the largest batch. Move-only.
class ActivationBuffer {
 public:
  ActivationBuffer() = default;
  ActivationBuffer(int64_t max_rows, int64_t max_depth);

  // Starts filling `rows` rows of padded depth round_up(depth, 32); zeroes nothing. `spec.wide` and
  // `spec.order` are kept. With an order, what is written stays as it is until finish_row() or finish(): a
  // column may go anywhere in its row.
  void begin(const ActivationSpec& spec, int64_t rows, int64_t depth) noexcept;
  // Converts one row of `depth` floats (the depth of begin()), pads it with zeros. Rows may be written from
  // different threads. `row_values` may be unaligned and must not alias the buffer.
  void write_row(int64_t row, const float* row_values) noexcept;
  // The same in pieces, for producers that compute a row bit by bit: columns [first, first + count). `first`
  // is a multiple of 32, and so is `count` unless the piece ends the row.
  void write_columns(int64_t row, int64_t first, const float* values, int64_t count) noexcept;
  // Columns [32 group, 32 group + 32) of all rows from values [rows, 32]. Groups may be written from
  // different threads.
  void write_group(int64_t group, const float* values) noexcept;
  // Row `row` has been written: converts it if that had to wait for its last column.
  void finish_row(int64_t row) noexcept;
  // The same for all rows, for producers whose threads share them.
  void finish(ComputePool& pool) noexcept;
  const Activations& view() const noexcept { return view_; }

 private:
  // `groups` whole groups of row `row`, the first of them being group `group` of the row.
  void quantize(int64_t row, int64_t group, const float* values, int64_t groups) noexcept;
  Activations view_;
  int64_t depth_ = 0;
  int64_t max_rows_ = 0, max_depth_ = 0;
  AlignedBuffer data_, scales_, sums_, scaled_sums_;
  AlignedBuffer unordered_;  // rows that wait for finish_row(); pages that nothing touches take no memory
};

// Row i of `out` is row source[i] of x, on all threads.
void convert_rows(ConstRowsView x, std::span<const int32_t> source, const ActivationSpec& spec,
                  ActivationBuffer& out, ComputePool& pool) noexcept;

// Converts all rows of x, on all threads.
void convert_activations(ConstRowsView x, const ActivationSpec& spec, ActivationBuffer& out,
                         ComputePool& pool) noexcept;

}  // namespace pagoda::kernels
