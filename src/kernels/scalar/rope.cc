#include "kernels/bodies.h"

namespace pagoda::kernels::scalar {
namespace {

void rotate(float* x, int64_t half, const float* cos, const float* sin) {
  for (int64_t i = 0; i < half; ++i) {
    const float a = x[i], b = x[i + half];
    x[i] = a * cos[i] - b * sin[i];
    x[i + half] = b * cos[i] + a * sin[i];
  }
}

}  // namespace

const RopeBody rope_body = {rotate};

}  // namespace pagoda::kernels::scalar
