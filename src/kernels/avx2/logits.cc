#include <immintrin.h>

#include "kernels/avx2/vector.h"
#include "kernels/bodies.h"

namespace pagoda::kernels::avx2 {
namespace {

float max_value(const float* x, int64_t size) {
  // max(value, so far) keeps what it has where the value is NaN.
  const __m256 lowest = _mm256_set1_ps(-__builtin_inff());
  __m256 max[4] = {lowest, lowest, lowest, lowest};
  int64_t i = 0;
  for (; i + 32 <= size; i += 32) {
    for (int z = 0; z < 4; ++z) max[z] = _mm256_max_ps(_mm256_loadu_ps(x + i + z * 8), max[z]);
  }
  for (; i < size; i += 8) {
    const __m256i mask = lanes(size - i);
    const __m256 value = _mm256_blendv_ps(lowest, _mm256_maskload_ps(x + i, mask), _mm256_castsi256_ps(mask));
    max[0] = _mm256_max_ps(value, max[0]);
  }
  return max_of(_mm256_max_ps(_mm256_max_ps(max[0], max[1]), _mm256_max_ps(max[2], max[3])));
}

template <int kCompare>
static inline unsigned hits_at(const float* x, __m256 value) {
  return static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(x), value, kCompare)));
}

template <int kCompare>
static inline unsigned hits_at_end(const float* x, int64_t left, __m256 value) {
  const __m256i mask = lanes(left);
  const __m256 hits = _mm256_cmp_ps(_mm256_maskload_ps(x, mask), value, kCompare);
  return static_cast<unsigned>(_mm256_movemask_ps(_mm256_and_ps(hits, _mm256_castsi256_ps(mask))));
}

template <int kCompare>
int64_t find(const float* x, int64_t begin, int64_t size, float value) {
  const __m256 v = _mm256_set1_ps(value);
  int64_t i = begin;
  for (; i + 32 <= size; i += 32) {
    const unsigned hits = hits_at<kCompare>(x + i, v) | hits_at<kCompare>(x + i + 8, v) << 8 |
                          hits_at<kCompare>(x + i + 16, v) << 16 | hits_at<kCompare>(x + i + 24, v) << 24;
    if (hits != 0) return i + __builtin_ctz(hits);
  }
  for (; i < size; i += 8) {
    const unsigned hits = hits_at_end<kCompare>(x + i, size - i, v);
    if (hits != 0) return i + __builtin_ctz(hits);
  }
  return size;
}

int64_t find_equal(const float* x, int64_t size, float value) {
  return find<_CMP_EQ_OQ>(x, 0, size, value);
}

int64_t count_greater(const float* x, int64_t size, float value) {
  const __m256 v = _mm256_set1_ps(value);
  int64_t count = 0, i = 0;
  for (; i + 8 <= size; i += 8) count += __builtin_popcount(hits_at<_CMP_GT_OQ>(x + i, v));
  if (i < size) count += __builtin_popcount(hits_at_end<_CMP_GT_OQ>(x + i, size - i, v));
  return count;
}

double exp_sum(const float* x, int64_t size, float max, float* out) {
  const __m256 m = _mm256_set1_ps(max);
  __m256d low = _mm256_setzero_pd(), high = low;
  for (int64_t i = 0; i < size; i += 8) {
    const __m256i inside = lanes(size - i);
    const __m256 value = _mm256_maskload_ps(x + i, inside);
    const __m256 counts = _mm256_and_ps(_mm256_castsi256_ps(inside), _mm256_cmp_ps(value, value, _CMP_ORD_Q));
    const __m256 term = _mm256_and_ps(counts, exp_ps(_mm256_sub_ps(value, m)));
    low = _mm256_add_pd(low, _mm256_cvtps_pd(_mm256_castps256_ps128(term)));
    high = _mm256_add_pd(high, _mm256_cvtps_pd(_mm256_extractf128_ps(term, 1)));
    if (out != nullptr) _mm256_maskstore_ps(out + i, inside, term);
  }
  alignas(32) double sums[4];
  _mm256_store_pd(sums, _mm256_add_pd(low, high));
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

bool block_maxima(const float* x, int64_t size, float* maxima) {
  __m256 nan = _mm256_setzero_ps();
  int64_t at = 0;
  for (; at + kLogitsBlock <= size; at += kLogitsBlock) {
    const __m256 lowest = _mm256_set1_ps(-__builtin_inff());
    __m256 max[4] = {lowest, lowest, lowest, lowest};
    for (int64_t i = at; i < at + kLogitsBlock; i += 32) {
      const __m256 a = _mm256_loadu_ps(x + i), b = _mm256_loadu_ps(x + i + 8);
      const __m256 c = _mm256_loadu_ps(x + i + 16), d = _mm256_loadu_ps(x + i + 24);
      nan = _mm256_or_ps(nan, _mm256_cmp_ps(a, b, _CMP_UNORD_Q));
      nan = _mm256_or_ps(nan, _mm256_cmp_ps(c, d, _CMP_UNORD_Q));
      // max(value, so far) keeps what it has where the value is NaN.
      max[0] = _mm256_max_ps(a, max[0]);
      max[1] = _mm256_max_ps(b, max[1]);
      max[2] = _mm256_max_ps(c, max[2]);
      max[3] = _mm256_max_ps(d, max[3]);
    }
    *maxima++ = max_of(_mm256_max_ps(_mm256_max_ps(max[0], max[1]), _mm256_max_ps(max[2], max[3])));
  }
  if (at < size) {
    *maxima = max_value(x + at, size - at);
    for (; at < size; at += 8) {
      const __m256 value = _mm256_maskload_ps(x + at, lanes(size - at));
      nan = _mm256_or_ps(nan, _mm256_cmp_ps(value, value, _CMP_UNORD_Q));
    }
  }
  return _mm256_movemask_ps(nan) != 0;
}

void select(const float* x, int64_t begin, int64_t end, float least, Selection& out) {
  const __m256 bound = _mm256_set1_ps(least);
  int64_t found = out.count;
  for (int64_t i = begin; i < end; i += 8) {
    const __m256i inside = lanes(end - i);
    const __m256 value = _mm256_maskload_ps(x + i, inside);
    const __m256 reached = _mm256_cmp_ps(value, bound, _CMP_GE_OQ);
    auto hits =
        static_cast<unsigned>(_mm256_movemask_ps(_mm256_and_ps(reached, _mm256_castsi256_ps(inside))));
    if (hits == 0) continue;
    alignas(32) float copy[8];  // x may be out.values
    _mm256_store_ps(copy, value);
    for (; hits != 0; hits &= hits - 1) {
      const int lane = __builtin_ctz(hits);
      out.ids[found] = static_cast<int32_t>(i + lane);
      out.values[found++] = copy[lane];
    }
  }
  out.count = found;
}

// Lanes 0 to 3 and 4 to 7 of sum_lanes.
struct SumLanes {
  __m256d low, high;
};

static inline void add_eight(SumLanes& sum, __m256 terms) {
  sum.low = _mm256_add_pd(sum.low, _mm256_cvtps_pd(_mm256_castps256_ps128(terms)));
  sum.high = _mm256_add_pd(sum.high, _mm256_cvtps_pd(_mm256_extractf128_ps(terms, 1)));
}

static inline double finish_lanes(const SumLanes& lanes_of_sum, const float* rest, int64_t size) {
  double sum = 0;
  for (int64_t i = 0; i < size; ++i) sum += static_cast<double>(rest[i]);
  alignas(32) double lane[8];
  _mm256_store_pd(lane, lanes_of_sum.low);
  _mm256_store_pd(lane + 4, lanes_of_sum.high);
  for (int i = 0; i < 8; ++i) sum += lane[i];
  return sum;
}

double sum_lanes(const float* x, int64_t size) {
  SumLanes sum = {_mm256_setzero_pd(), _mm256_setzero_pd()};
  int64_t i = 0;
  for (; i + 8 <= size; i += 8) add_eight(sum, _mm256_loadu_ps(x + i));
  return finish_lanes(sum, x + i, size - i);
}

double weigh(const float* x, int64_t size, float max, float temperature, float* out) {
  const __m256 m = _mm256_set1_ps(max), t = _mm256_set1_ps(temperature);
  SumLanes sum = {_mm256_setzero_pd(), _mm256_setzero_pd()};
  int64_t i = 0;
  for (; i < size; i += 8) {
    const __m256i inside = lanes(size - i);
    const __m256 exponent = _mm256_div_ps(_mm256_sub_ps(_mm256_maskload_ps(x + i, inside), m), t);
    const __m256 counts = _mm256_cmp_ps(exponent, exponent, _CMP_ORD_Q);
    const __m256 term = _mm256_and_ps(counts, exp_ps(exponent));
    _mm256_maskstore_ps(out + i, inside, term);
    if (size - i < 8) break;
    add_eight(sum, term);
  }
  return finish_lanes(sum, out + i, size - i);
}

}  // namespace

const LogitsBody logits_body = {max_value, find_equal, find<_CMP_GT_OQ>, count_greater, exp_sum, block_maxima,
                                select,    weigh,      sum_lanes};

}  // namespace pagoda::kernels::avx2
