// Products of rows that belong to different weights, as one parallel section: the experts of a layer, each
// with the tokens that go to it. A row's result is that of matmul() with its weight, whatever other rows are
// there.
#pragma once

#include <cstdint>
#include <span>

#include "base/thread_pool.h"
#include "kernels/activations.h"
#include "kernels/rows.h"
#include "tensor/packed_weight.h"

namespace pagoda::kernels {

// Rows [first_row, first_row + rows) of the activations times one weight, into columns of `out` from `column`
// on.
struct GroupedJob {
  const PackedWeight* weight = nullptr;
  int64_t first_row = 0, rows = 0;
  int64_t column = 0;  // a multiple of 16
};

// The form of x is that of every weight. Rows of `out` are 64-byte aligned and have room for the padded rows
// of each weight behind its column. No allocation. Preconditions are CHECKed.
void grouped_matmul(const Activations& x, std::span<const GroupedJob> jobs, RowsView out,
                    ComputePool& pool) noexcept;

}  // namespace pagoda::kernels
