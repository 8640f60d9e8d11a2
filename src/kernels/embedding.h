// Token embedding: out[t] = scale * row ids[t] of a packed matrix (which may be the tied output head).
#pragma once

#include <cstdint>
#include <span>

#include "base/ids.h"
#include "base/thread_pool.h"
#include "kernels/rows.h"
#include "tensor/packed_weight.h"

namespace pagoda::kernels {

// One row of `out` per id; ids are valid rows of `table` (CHECKed).
void embed(const PackedWeight& table, std::span<const TokenId> ids, float scale, RowsView out,
           ComputePool& pool) noexcept;

}  // namespace pagoda::kernels
