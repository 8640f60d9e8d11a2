// Helpers of this tier: masks for the ends of arrays, and exp. Only files of this tier include it; internal
// linkage, so every file has its own copy.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace pagoda::kernels::avx2 {
namespace {

#define PAGODA_VECTOR [[maybe_unused]] inline __attribute__((always_inline))

// All bits set in the first `left` of 8 lanes.
PAGODA_VECTOR __m256i lanes(int64_t left) {
  const int count = static_cast<int>(left >= 8 ? 8 : left < 0 ? 0 : left);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

PAGODA_VECTOR float max_of(__m256 v) {
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

PAGODA_VECTOR float sum_of(__m256 v) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

PAGODA_VECTOR int32_t sum_of(__m256i v) {
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}

// x = n ln 2 + r with |r| <= 0.35; a polynomial of degree 7 (the Taylor series: its next term is below 6e-9
// of the value) times 2^n. Error at most 1 ulp or so (the test measures it). -inf gives 0, NaN stays NaN,
// above 88.8 is inf.
PAGODA_VECTOR __m256 exp_ps(__m256 x) {
  // The bounds keep n in range; the second operand passes NaN on.
  x = _mm256_max_ps(_mm256_set1_ps(-105.0f), _mm256_min_ps(_mm256_set1_ps(100.0f), x));
  const __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504f)), _MM_FROUND_TO_NEAREST_INT);
  __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693359375f), x);  // 10 bits: n times it is exact
  r = _mm256_fnmadd_ps(n, _mm256_set1_ps(-2.12194440e-4f), r);
  __m256 p = _mm256_set1_ps(1.0f / 5040);
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 720));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 120));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 24));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 6));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.5f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
  // 2^n in two factors, since n may leave the range of one exponent at both ends.
  const __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1),
                bias = _mm256_set1_epi32(127);
  const __m256i first = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
  const __m256i second = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(whole, half), bias), 23);
  return _mm256_mul_ps(_mm256_mul_ps(p, _mm256_castsi256_ps(first)), _mm256_castsi256_ps(second));
}

// Below 0.3 the odd Taylor polynomial (next term below 6e-8 of the value), above it 1 - 2 / (1 + exp(2|x|)).
PAGODA_VECTOR __m256 tanh_ps(__m256 x) {
  const __m256 one = _mm256_set1_ps(1.0f), two = _mm256_set1_ps(2.0f), sign = _mm256_set1_ps(-0.0f);
  const __m256 a = _mm256_andnot_ps(sign, x);
  const __m256 large =
      _mm256_sub_ps(one, _mm256_div_ps(two, _mm256_add_ps(one, exp_ps(_mm256_mul_ps(a, two)))));
  const __m256 s = _mm256_mul_ps(x, x);
  __m256 p = _mm256_set1_ps(62.0f / 2835);
  p = _mm256_fmadd_ps(p, s, _mm256_set1_ps(-17.0f / 315));
  p = _mm256_fmadd_ps(p, s, _mm256_set1_ps(2.0f / 15));
  p = _mm256_fmadd_ps(p, s, _mm256_set1_ps(-1.0f / 3));
  const __m256 small = _mm256_fmadd_ps(_mm256_mul_ps(p, s), a, a);
  const __m256 value = _mm256_blendv_ps(large, small, _mm256_cmp_ps(a, _mm256_set1_ps(0.3f), _CMP_LT_OQ));
  return _mm256_or_ps(value, _mm256_and_ps(x, sign));
}

#undef PAGODA_VECTOR

}  // namespace
}  // namespace pagoda::kernels::avx2
