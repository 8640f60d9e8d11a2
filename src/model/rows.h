// A matrix of floats whose rows are 64-byte aligned.
#pragma once

#include <cstdint>

#include "kernels/rows.h"
#include "tensor/aligned_buffer.h"
#include "tensor/packed_weight.h"

namespace pagoda::model {

struct Rows {
  Rows() = default;
  Rows(int64_t max_rows, int64_t width)
      : stride(round_up(width, kPanelRows)), data(static_cast<size_t>(max_rows * stride) * sizeof(float)) {}
  float* row(int64_t index) noexcept { return data.as<float>() + index * stride; }
  // The first `rows` rows of `width` columns from `column` on.
  kernels::RowsView view(int64_t rows, int64_t width, int64_t column = 0) noexcept {
    return {data.as<float>() + column, rows, width, stride};
  }
  size_t bytes() const noexcept { return data.size(); }

  int64_t stride = 0;
  AlignedBuffer data;
};

}  // namespace pagoda::model
