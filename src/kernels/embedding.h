// Token embedding: out[t] = scale * row ids[t] of a packed matrix (which may be the tied output head).
#pragma once

#include <cstdint>
#include <span>

#include "base/ids.h"
#include "base/thread_pool.h"
#include "tensor/packed_weight.h"

namespace pagoda::kernels {

// out row t at out + t * stride; ids are valid rows of `table` (CHECKed).
void embed(const PackedWeight& table, std::span<const TokenId> ids, float scale, float* out, int64_t stride,
           ComputePool& pool) noexcept;

}  // namespace pagoda::kernels
