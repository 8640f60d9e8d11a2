#include "kernels/bodies.h"

namespace pagoda::kernels::scalar {
namespace {

float sum_of_squares(const float* x, int64_t size) {
  float lanes[32] = {};
  int64_t i = 0;
  for (; i + 32 <= size; i += 32) {
    for (int lane = 0; lane < 32; ++lane) lanes[lane] += x[i + lane] * x[i + lane];
  }
  for (int lane = 0; i + lane < size; ++lane) lanes[lane] += x[i + lane] * x[i + lane];
  for (int width = 16; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  }
  return lanes[0];
}

void scale_row(const float* x, const float* weight, float factor, int64_t size, float* y) {
  for (int64_t i = 0; i < size; ++i) y[i] = x[i] * factor * weight[i];
}

}  // namespace

const NormBody norm_body = {sum_of_squares, scale_row};

}  // namespace pagoda::kernels::scalar
