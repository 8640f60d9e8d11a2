// exp of 16 floats. Only files of this tier include it; internal linkage, so every file has its own copy.
#pragma once

#include <immintrin.h>

namespace pagoda::kernels::avx512 {
namespace {

// x = n ln 2 + r with |r| <= 0.35; a polynomial of degree 7 (the Taylor series: its next term is below 6e-9
// of the value) times 2^n. Error at most 1 ulp or so (the test measures it). -inf gives 0, NaN stays NaN,
// above 88.8 is inf.
[[maybe_unused]] inline __attribute__((always_inline)) __m512 exp_ps(__m512 x) {
  // The bounds keep n in range; the second operand passes NaN on.
  x = _mm512_max_ps(_mm512_set1_ps(-105.0f), _mm512_min_ps(_mm512_set1_ps(100.0f), x));
  const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)), 0);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x);  // 10 bits: n times it is exact
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), r);
  __m512 p = _mm512_set1_ps(1.0f / 5040);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 720));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 120));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 24));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 6));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
  return _mm512_scalef_ps(p, n);
}

// Below 0.3 the odd Taylor polynomial (next term below 6e-8 of the value), above it 1 - 2 / (1 + exp(2|x|)).
[[maybe_unused]] inline __attribute__((always_inline)) __m512 tanh_ps(__m512 x) {
  const __m512 one = _mm512_set1_ps(1.0f), two = _mm512_set1_ps(2.0f);
  const __m512 a = _mm512_abs_ps(x);
  const __m512 large =
      _mm512_sub_ps(one, _mm512_div_ps(two, _mm512_add_ps(one, exp_ps(_mm512_mul_ps(a, two)))));
  const __m512 s = _mm512_mul_ps(x, x);
  __m512 p = _mm512_set1_ps(62.0f / 2835);
  p = _mm512_fmadd_ps(p, s, _mm512_set1_ps(-17.0f / 315));
  p = _mm512_fmadd_ps(p, s, _mm512_set1_ps(2.0f / 15));
  p = _mm512_fmadd_ps(p, s, _mm512_set1_ps(-1.0f / 3));
  const __m512 small = _mm512_fmadd_ps(_mm512_mul_ps(p, s), a, a);
  const __m512 value =
      _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, _mm512_set1_ps(0.3f), _CMP_LT_OQ), large, small);
  return _mm512_or_ps(value, _mm512_and_ps(x, _mm512_set1_ps(-0.0f)));
}

}  // namespace
}  // namespace pagoda::kernels::avx512
