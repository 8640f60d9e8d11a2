#include <immintrin.h>

#include "kernels/avx512/exp.h"
#include "kernels/bodies.h"

namespace pagoda::kernels::avx512 {
namespace {

static inline __mmask16 lanes(int64_t left) {
  return static_cast<__mmask16>(left >= 16 ? 0xffff : (1 << left) - 1);
}

float max_value(const float* x, int64_t size) {
  // max(value, so far) keeps what it has where the value is NaN.
  const __m512 lowest = _mm512_set1_ps(-__builtin_inff());
  __m512 max[4] = {lowest, lowest, lowest, lowest};
  int64_t i = 0;
  for (; i + 64 <= size; i += 64) {
    for (int z = 0; z < 4; ++z) max[z] = _mm512_max_ps(_mm512_loadu_ps(x + i + z * 16), max[z]);
  }
  for (; i < size; i += 16)
    max[0] = _mm512_max_ps(_mm512_mask_loadu_ps(lowest, lanes(size - i), x + i), max[0]);
  return _mm512_reduce_max_ps(_mm512_max_ps(_mm512_max_ps(max[0], max[1]), _mm512_max_ps(max[2], max[3])));
}

template <int kCompare>
int64_t find(const float* x, int64_t begin, int64_t size, float value) {
  const __m512 v = _mm512_set1_ps(value);
  int64_t i = begin;
  for (; i + 64 <= size; i += 64) {
    const __mmask16 a = _mm512_cmp_ps_mask(_mm512_loadu_ps(x + i), v, kCompare);
    const __mmask16 b = _mm512_cmp_ps_mask(_mm512_loadu_ps(x + i + 16), v, kCompare);
    const __mmask16 c = _mm512_cmp_ps_mask(_mm512_loadu_ps(x + i + 32), v, kCompare);
    const __mmask16 d = _mm512_cmp_ps_mask(_mm512_loadu_ps(x + i + 48), v, kCompare);
    const uint64_t hits = uint64_t{a} | uint64_t{b} << 16 | uint64_t{c} << 32 | uint64_t{d} << 48;
    if (hits != 0) return i + __builtin_ctzll(hits);
  }
  for (; i < size; i += 16) {
    const __mmask16 mask = lanes(size - i);
    const unsigned hits = _mm512_mask_cmp_ps_mask(mask, _mm512_maskz_loadu_ps(mask, x + i), v, kCompare);
    if (hits != 0) return i + __builtin_ctz(hits);
  }
  return size;
}

int64_t find_equal(const float* x, int64_t size, float value) {
  return find<_CMP_EQ_OQ>(x, 0, size, value);
}

int64_t count_greater(const float* x, int64_t size, float value) {
  const __m512 v = _mm512_set1_ps(value);
  int64_t count = 0;
  for (int64_t i = 0; i < size; i += 16) {
    const __mmask16 mask = lanes(size - i);
    const unsigned hits = _mm512_mask_cmp_ps_mask(mask, _mm512_maskz_loadu_ps(mask, x + i), v, _CMP_GT_OQ);
    count += __builtin_popcount(hits);
  }
  return count;
}

double exp_sum(const float* x, int64_t size, float max, float* out) {
  const __m512 m = _mm512_set1_ps(max);
  __m512d low = _mm512_setzero_pd(), high = low;
  for (int64_t i = 0; i < size; i += 16) {
    const __mmask16 inside = lanes(size - i);
    const __m512 value = _mm512_maskz_loadu_ps(inside, x + i);
    const __mmask16 mask = _mm512_mask_cmp_ps_mask(inside, value, value, _CMP_ORD_Q);
    const __m512 term = _mm512_maskz_mov_ps(mask, exp_ps(_mm512_sub_ps(value, m)));
    low = _mm512_add_pd(low, _mm512_cvtps_pd(_mm512_castps512_ps256(term)));
    high = _mm512_add_pd(high, _mm512_cvtps_pd(_mm512_extractf32x8_ps(term, 1)));
    if (out != nullptr) _mm512_mask_storeu_ps(out + i, inside, term);
  }
  return _mm512_reduce_add_pd(_mm512_add_pd(low, high));
}

bool block_maxima(const float* x, int64_t size, float* maxima) {
  const __m512 lowest = _mm512_set1_ps(-__builtin_inff());
  unsigned nan = 0;
  int64_t at = 0;
  for (; at + kLogitsBlock <= size; at += kLogitsBlock) {
    __m512 max[4] = {lowest, lowest, lowest, lowest};
    for (int64_t i = at; i < at + kLogitsBlock; i += 64) {
      const __m512 a = _mm512_loadu_ps(x + i), b = _mm512_loadu_ps(x + i + 16);
      const __m512 c = _mm512_loadu_ps(x + i + 32), d = _mm512_loadu_ps(x + i + 48);
      nan |= _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q) | _mm512_cmp_ps_mask(c, d, _CMP_UNORD_Q);
      // max(value, so far) keeps what it has where the value is NaN.
      max[0] = _mm512_max_ps(a, max[0]);
      max[1] = _mm512_max_ps(b, max[1]);
      max[2] = _mm512_max_ps(c, max[2]);
      max[3] = _mm512_max_ps(d, max[3]);
    }
    *maxima++ =
        _mm512_reduce_max_ps(_mm512_max_ps(_mm512_max_ps(max[0], max[1]), _mm512_max_ps(max[2], max[3])));
  }
  if (at == size) return nan != 0;
  *maxima = max_value(x + at, size - at);
  for (; at < size; at += 16) {
    const __m512 value = _mm512_maskz_loadu_ps(lanes(size - at), x + at);
    nan |= _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
  }
  return nan != 0;
}

void select(const float* x, int64_t begin, int64_t end, float least, Selection& out) {
  const __m512 bound = _mm512_set1_ps(least);
  const __m512i count_up = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  int64_t found = out.count;
  for (int64_t i = begin; i < end; i += 16) {
    const __mmask16 inside = lanes(end - i);
    const __m512 value = _mm512_maskz_loadu_ps(inside, x + i);
    const __mmask16 hits = _mm512_mask_cmp_ps_mask(inside, value, bound, _CMP_GE_OQ);
    if (hits == 0) continue;
    // Compressed in a register: compressing stores are slow on some CPUs.
    const int count = __builtin_popcount(hits);
    const __m512i id = _mm512_add_epi32(count_up, _mm512_set1_epi32(static_cast<int>(i)));
    _mm512_mask_storeu_epi32(out.ids + found, lanes(count), _mm512_maskz_compress_epi32(hits, id));
    _mm512_mask_storeu_ps(out.values + found, lanes(count), _mm512_maskz_compress_ps(hits, value));
    found += count;
  }
  out.count = found;
}

// Adds the eight lanes and what is left beyond them, in the order of sum_lanes.
static inline double finish_lanes(__m512d lanes_of_sum, const float* rest, int64_t size) {
  double sum = 0;
  for (int64_t i = 0; i < size; ++i) sum += static_cast<double>(rest[i]);
  alignas(64) double lane[8];
  _mm512_store_pd(lane, lanes_of_sum);
  for (int i = 0; i < 8; ++i) sum += lane[i];
  return sum;
}

double sum_lanes(const float* x, int64_t size) {
  __m512d sum = _mm512_setzero_pd();
  int64_t i = 0;
  for (; i + 8 <= size; i += 8) sum = _mm512_add_pd(sum, _mm512_cvtps_pd(_mm256_loadu_ps(x + i)));
  return finish_lanes(sum, x + i, size - i);
}

double weigh(const float* x, int64_t size, float max, float temperature, float* out) {
  const __m512 m = _mm512_set1_ps(max), t = _mm512_set1_ps(temperature);
  __m512d sum = _mm512_setzero_pd();
  int64_t i = 0;
  for (; i < size; i += 16) {
    const __mmask16 inside = lanes(size - i);
    const __m512 exponent = _mm512_div_ps(_mm512_sub_ps(_mm512_maskz_loadu_ps(inside, x + i), m), t);
    const __mmask16 mask = _mm512_mask_cmp_ps_mask(inside, exponent, exponent, _CMP_ORD_Q);
    const __m512 term = _mm512_maskz_mov_ps(mask, exp_ps(exponent));
    _mm512_mask_storeu_ps(out + i, inside, term);
    if (size - i < 16) break;
    sum = _mm512_add_pd(sum, _mm512_cvtps_pd(_mm512_castps512_ps256(term)));
    sum = _mm512_add_pd(sum, _mm512_cvtps_pd(_mm512_extractf32x8_ps(term, 1)));
  }
  if (size - i >= 8) {
    sum = _mm512_add_pd(sum, _mm512_cvtps_pd(_mm256_loadu_ps(out + i)));
    i += 8;
  }
  return finish_lanes(sum, out + i, size - i);
}

}  // namespace

const LogitsBody logits_body = {max_value, find_equal, find<_CMP_GT_OQ>, count_greater, exp_sum, block_maxima,
                                select,    weigh,      sum_lanes};

}  // namespace pagoda::kernels::avx512
