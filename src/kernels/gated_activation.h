// The gated feed-forward activations: y = act(gate) * up.
//   kSilu      x * sigmoid(x)                                   (SwiGLU; Shazeer 2020)
//   kGeluTanh  0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))  (GeGLU; Hendrycks and Gimpel 2016)
#pragma once

#include <cstdint>

#include "base/thread_pool.h"
#include "kernels/activations.h"

namespace pagoda::kernels {

enum class GatedActivation : uint8_t { kSilu, kGeluTanh };

// y[i] = act(gate[i]) * up[i]; y may be gate or up.
void gated_activation_row(GatedActivation kind, const float* gate, const float* up, int64_t size,
                          float* y) noexcept;

// Row r of gate and up at + r * stride (floats); the result goes straight into the next matmul's form.
void gated_activation_convert(GatedActivation kind, const float* gate, const float* up, int64_t stride,
                              int64_t rows, int64_t size, ActivationForm form, ActivationBuffer& out,
                              ComputePool& pool) noexcept;

}  // namespace pagoda::kernels
