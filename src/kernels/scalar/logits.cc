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

bool block_maxima(const float* x, int64_t size, float* maxima) {
  bool has_nan = false;
  for (int64_t at = 0; at < size; at += kLogitsBlock) {
    const int64_t count = size - at < kLogitsBlock ? size - at : kLogitsBlock;
    *maxima++ = max_value(x + at, count);
    for (int64_t i = at; i < at + count; ++i) has_nan |= std::isnan(x[i]);
  }
  return has_nan;
}

void select(const float* x, int64_t begin, int64_t end, float least, Selection& out) {
  int64_t found = out.count;
  for (int64_t i = begin; i < end; ++i) {
    if (!(x[i] >= least)) continue;
    out.ids[found] = static_cast<int32_t>(i);
    out.values[found++] = x[i];
  }
  out.count = found;
}

double sum_lanes(const float* x, int64_t size) {
  double lanes[8] = {};
  int64_t i = 0;
  for (; i + 8 <= size; i += 8) {
    for (int lane = 0; lane < 8; ++lane) lanes[lane] += static_cast<double>(x[i + lane]);
  }
  double sum = 0;
  for (; i < size; ++i) sum += static_cast<double>(x[i]);
  for (const double lane : lanes) sum += lane;
  return sum;
}

double weigh(const float* x, int64_t size, float max, float temperature, float* out) {
  for (int64_t i = 0; i < size; ++i) {
    const float exponent = (x[i] - max) / temperature;
    out[i] = std::isnan(exponent) ? 0.0f : std::exp(exponent);
  }
  return sum_lanes(out, size);
}

}  // namespace

const LogitsBody logits_body = {max_value,    find_equal, find_greater, count_greater, exp_sum,
                                block_maxima, select,     weigh,        sum_lanes};

}  // namespace pagoda::kernels::scalar
