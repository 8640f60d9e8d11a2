// The norms of a row.
//   kRms    y = x / sqrt(mean(x^2) + eps) * weight                (Zhang and Sennrich 2019, equation 4)
//   kLayer  y = (x - mean) / sqrt(variance + eps) * weight + bias  (Ba, Kiros and Hinton 2016), the variance
//   being
//           that of the whole row
// Gemma's (1 + w) is folded into `weight` at load. Sums are taken in a fixed order, the same on every tier.
#pragma once

#include <cstdint>

#include "base/thread_pool.h"
#include "kernels/activations.h"
#include "kernels/rows.h"

namespace pagoda::kernels {

enum class NormKind : uint8_t { kRms, kLayer };

struct Norm {
  NormKind kind = NormKind::kRms;
  float eps = 0;
  const float* weight = nullptr;  // [width of a row]
  const float* bias = nullptr;    // the same; of kLayer alone
};

// One row of `size` floats; y may be x.
void norm_row(const float* x, const Norm& norm, int64_t size, float* y) noexcept;

// All rows in place.
void norm_rows(RowsView x, const Norm& norm, ComputePool& pool) noexcept;

// Norm and conversion for the matmul that follows, in one pass over the rows.
void norm_convert(ConstRowsView x, const Norm& norm, const ActivationSpec& spec, ActivationBuffer& out,
                  ComputePool& pool) noexcept;

}  // namespace pagoda::kernels
