// A matrix of floats in memory that somebody else owns: `rows` rows of `width` floats, `stride` floats apart.
#pragma once

#include <cstdint>

namespace pagoda::kernels {

struct RowsView {
  float* data = nullptr;
  int64_t rows = 0, width = 0, stride = 0;

  float* row(int64_t index) const noexcept { return data + index * stride; }
  // Columns [first, first + count) of all rows.
  RowsView columns(int64_t first, int64_t count) const noexcept {
    return {data + first, rows, count, stride};
  }
};

struct ConstRowsView {
  ConstRowsView(const float* floats, int64_t num_rows, int64_t row_width, int64_t row_stride) noexcept
      : data(floats), rows(num_rows), width(row_width), stride(row_stride) {}
  ConstRowsView(const RowsView& view) noexcept  // NOLINT: a view of more is a view of less
      : ConstRowsView(view.data, view.rows, view.width, view.stride) {}

  const float* row(int64_t index) const noexcept { return data + index * stride; }

  const float* data = nullptr;
  int64_t rows = 0, width = 0, stride = 0;
};

}  // namespace pagoda::kernels
