#include <cmath>

#include "kernels/bodies.h"

namespace pagoda::kernels::scalar {
namespace {

void silu(const float* gate, const float* up, int64_t size, float* y) {
  for (int64_t i = 0; i < size; ++i) y[i] = gate[i] / (1.0f + std::exp(-gate[i])) * up[i];
}

// 0.5 (1 + tanh(z)) = sigmoid(2 z), which does not cancel for negative z.
void gelu_tanh(const float* gate, const float* up, int64_t size, float* y) {
  constexpr float kTwoRootTwoOverPi = 1.5957691216057308f;
  for (int64_t i = 0; i < size; ++i) {
    const float x = gate[i];
    const float z = kTwoRootTwoOverPi * (x + 0.044715f * x * x * x);
    y[i] = x / (1.0f + std::exp(-z)) * up[i];
  }
}

}  // namespace

const GatedBody gated_body = {silu, gelu_tanh};

}  // namespace pagoda::kernels::scalar
