// Dense float32 matrices and the one product that everything here is made of, by the kernels of the forward
// pass.
#pragma once

#include <cstdint>

#include "base/thread_pool.h"
#include "kernels/rows.h"
#include "tensor/aligned_buffer.h"

namespace pagoda::quantize {

// Zero-filled; rows are 64-byte aligned and padded to a multiple of 32 floats.
class Dense {
 public:
  Dense() = default;
  Dense(int64_t rows, int64_t columns);

  int64_t rows() const noexcept { return rows_; }
  int64_t columns() const noexcept { return columns_; }
  int64_t stride() const noexcept { return stride_; }
  float* row(int64_t index) noexcept { return data_.as<float>() + index * stride_; }
  const float* row(int64_t index) const noexcept { return data_.as<float>() + index * stride_; }
  float& at(int64_t row_index, int64_t column) noexcept { return row(row_index)[column]; }
  float at(int64_t row_index, int64_t column) const noexcept { return row(row_index)[column]; }
  // Rows [first, first + rows), columns [column, column + columns).
  kernels::RowsView part(int64_t first, int64_t rows, int64_t column, int64_t columns) noexcept {
    return {row(first) + column, rows, columns, stride_};
  }
  kernels::ConstRowsView part(int64_t first, int64_t rows, int64_t column, int64_t columns) const noexcept {
    return {row(first) + column, rows, columns, stride_};
  }
  kernels::RowsView view() noexcept { return part(0, rows_, 0, columns_); }
  kernels::ConstRowsView view() const noexcept { return part(0, rows_, 0, columns_); }

 private:
  int64_t rows_ = 0, columns_ = 0, stride_ = 0;
  AlignedBuffer data_;
};

// out (+)= factor * a b^T: a [M, K], b [N, K], out [M, N]. `out` begins at a multiple of 16 floats of a row
// of a Dense and may not overlap a or b; columns of out's rows behind N, up to a multiple of 32, are
// overwritten.
struct Product {
  float factor = 1.0f;
  bool accumulate = false;
};
void multiply(kernels::ConstRowsView a, kernels::ConstRowsView b, const Product& product,
              kernels::RowsView out, ComputePool& pool);

}  // namespace pagoda::quantize
