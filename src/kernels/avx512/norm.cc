#include <immintrin.h>

#include "kernels/bodies.h"

namespace pagoda::kernels::avx512 {
namespace {

static inline __mmask16 lanes(int64_t left) {
  return static_cast<__mmask16>(left >= 16 ? 0xffff : left <= 0 ? 0 : (1 << left) - 1);
}

float sum_of_squares(const float* x, int64_t size) {
  __m512 low = _mm512_setzero_ps(), high = low;
  for (int64_t i = 0; i < size; i += 32) {
    const __m512 a = _mm512_maskz_loadu_ps(lanes(size - i), x + i);
    const __m512 b = _mm512_maskz_loadu_ps(lanes(size - i - 16), x + i + 16);
    low = _mm512_add_ps(low, _mm512_mul_ps(a, a));
    high = _mm512_add_ps(high, _mm512_mul_ps(b, b));
  }
  const __m512 all = _mm512_add_ps(low, high);
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

void scale_row(const float* x, const float* weight, float factor, int64_t size, float* y) {
  const __m512 f = _mm512_set1_ps(factor);
  for (int64_t i = 0; i < size; i += 16) {
    const __mmask16 mask = lanes(size - i);
    const __m512 scaled = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + i), f);
    _mm512_mask_storeu_ps(y + i, mask, _mm512_mul_ps(scaled, _mm512_maskz_loadu_ps(mask, weight + i)));
  }
}

}  // namespace

const NormBody norm_body = {sum_of_squares, scale_row};

}  // namespace pagoda::kernels::avx512
