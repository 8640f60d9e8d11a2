// Packed matrix product: out[m, n] (+)= sum_k x[m, k] * w[n, k] (+ bias[n]).
//
// The arithmetic of a row - grouping, order, rounding - is the same for 1 row and for 512 and for every split
// into chunks (DESIGN.md principle 2): integer dot products per weight group (exact), float accumulation over
// groups in ascending k, bias and the addition to `out` last. For kF32 and kBF16: accumulation in ascending
// k.
#pragma once

#include <cstdint>
#include <span>

#include "base/thread_pool.h"
#include "kernels/activations.h"
#include "tensor/packed_weight.h"

namespace pagoda::kernels {

// One product of a set that shares its activations. Jobs of one call must not overlap in `out`.
struct MatmulJob {
  const PackedWeight* weight = nullptr;  // depth = the activations' depth
  const float* bias = nullptr;           // [weight->rows()] or null
  float* out = nullptr;     // [x.rows, out_stride]; 64-byte aligned; columns up to padded_rows() are written
  int64_t out_stride = 0;   // in floats; >= weight->padded_rows(), a multiple of 16
  bool accumulate = false;  // add to what `out` holds (residual connections)
};

// Runs all jobs as one parallel section. `x.form` must be activation_form(weight->layout()) of every job.
// No allocation. Preconditions are CHECKed.
void matmul(const Activations& x, std::span<const MatmulJob> jobs, ComputePool& pool) noexcept;

}  // namespace pagoda::kernels
