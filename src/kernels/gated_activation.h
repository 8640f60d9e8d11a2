// The gated feed-forward activations: y = act(gate) * up.
//   kSilu      x * sigmoid(x)                                   (SwiGLU; Shazeer 2020)
//   kGeluTanh  0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))  (GeGLU; Hendrycks and Gimpel 2016)
#pragma once

#include <cstdint>

#include "base/thread_pool.h"
#include "kernels/activations.h"
#include "kernels/rows.h"

namespace pagoda::kernels {

enum class GatedActivation : uint8_t { kSilu, kGeluTanh };

// y[i] = act(gate[i]) * up[i]; y may be gate or up.
void gated_activation_row(GatedActivation kind, const float* gate, const float* up, int64_t size,
                          float* y) noexcept;

// The two inputs, of the same shape.
struct GateAndUp {
  ConstRowsView gate, up;
};

// All rows; the result goes straight into the form of the next matmul.
void gated_activation_convert(GatedActivation kind, const GateAndUp& x, const ActivationSpec& spec,
                              ActivationBuffer& out, ComputePool& pool) noexcept;

// The same without a gate: act(x) (kGeluTanh is GPT-2's "gelu_new").
void activation_convert(GatedActivation kind, ConstRowsView x, const ActivationSpec& spec,
                        ActivationBuffer& out, ComputePool& pool) noexcept;

}  // namespace pagoda::kernels
