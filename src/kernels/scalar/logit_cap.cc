#include <cmath>

#include "kernels/bodies.h"

namespace pagoda::kernels::scalar {
namespace {

void scale(float* x, float factor, int64_t size) {
  for (int64_t i = 0; i < size; ++i) x[i] *= factor;
}

void cap(float* x, float factor, float limit, int64_t size) {
  for (int64_t i = 0; i < size; ++i) x[i] = limit * std::tanh(x[i] * factor / limit);
}

}  // namespace

const LogitCapBody logit_cap_body = {scale, cap};

}  // namespace pagoda::kernels::scalar
