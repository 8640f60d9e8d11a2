// RMSNorm: y = x / sqrt(mean(x^2) + eps) * weight. Source: Zhang and Sennrich 2019, equation 4.
// Gemma's (1 + w) is folded into `weight` at load. The sum of squares is taken in a fixed order.
#pragma once

#include <cstdint>

#include "base/thread_pool.h"
#include "kernels/activations.h"

namespace pagoda::kernels {

// One row of `size` floats; y may be x.
void rms_norm_row(const float* x, const float* weight, float eps, int64_t size, float* y) noexcept;

// rows x size, row r at x + r * x_stride and y + r * y_stride; y may be x.
void rms_norm(const float* x, int64_t x_stride, const float* weight, float eps, int64_t rows, int64_t size,
              float* y, int64_t y_stride, ComputePool& pool) noexcept;

// Norm and conversion for the matmul that follows, in one pass over the rows.
void rms_norm_convert(const float* x, int64_t x_stride, const float* weight, float eps, int64_t rows,
                      int64_t size, ActivationForm form, ActivationBuffer& out, ComputePool& pool) noexcept;

}  // namespace pagoda::kernels
