// RMSNorm: y = x / sqrt(mean(x^2) + eps) * weight. Source: Zhang and Sennrich 2019, equation 4.
// Gemma's (1 + w) is folded into `weight` at load. The sum of squares is taken in a fixed order.
#pragma once

#include <cstdint>

#include "base/thread_pool.h"
#include "kernels/activations.h"
#include "kernels/rows.h"

namespace pagoda::kernels {

struct RmsNorm {
  const float* weight = nullptr;  // [width of a row]
  float eps = 0;
};

// One row of `size` floats; y may be x.
void rms_norm_row(const float* x, const RmsNorm& norm, int64_t size, float* y) noexcept;

// Norm and conversion for the matmul that follows, in one pass over the rows.
void rms_norm_convert(ConstRowsView x, const RmsNorm& norm, const ActivationSpec& spec, ActivationBuffer& out,
                      ComputePool& pool) noexcept;

}  // namespace pagoda::kernels
