#include <cmath>

#include "kernels/bodies.h"

namespace pagoda::kernels::scalar {
namespace {

float max_value(const float* x, int64_t size) {
  float max = -HUGE_VALF;
  for (int64_t i = 0; i < size; ++i) max = x[i] > max ? x[i] : max;
  return max;
}

int64_t find_equal(const float* x, int64_t size, float value) {
  int64_t i = 0;
  while (i < size && !(x[i] == value)) ++i;
  return i;
}

int64_t find_greater(const float* x, int64_t begin, int64_t size, float value) {
  int64_t i = begin;
  while (i < size && !(x[i] > value)) ++i;
  return i;
}

int64_t count_greater(const float* x, int64_t size, float value) {
  int64_t count = 0;
  for (int64_t i = 0; i < size; ++i) count += x[i] > value;
  return count;
}

double exp_sum(const float* x, int64_t size, float max, float* out) {
  double sum = 0;
  for (int64_t i = 0; i < size; ++i) {
    const float term = std::isnan(x[i]) ? 0.0f : std::exp(x[i] - max);
    sum += static_cast<double>(term);
    if (out != nullptr) out[i] = term;
  }
  return sum;
}

}  // namespace

const LogitsBody logits_body = {max_value, find_equal, find_greater, count_greater, exp_sum};

}  // namespace pagoda::kernels::scalar
