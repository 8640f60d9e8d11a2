#include <immintrin.h>

#include "kernels/avx2/vector.h"
#include "kernels/bodies.h"

namespace pagoda::kernels::avx2 {
namespace {

float sum_of_squares(const float* x, int64_t size) {
  __m256 sum[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
  for (int64_t i = 0; i < size; i += 32) {
    for (int z = 0; z < 4; ++z) {
      const int64_t left = size - i - z * 8;
      if (left <= 0) break;
      const __m256 v = _mm256_maskload_ps(x + i + z * 8, lanes(left));
      sum[z] = _mm256_add_ps(sum[z], _mm256_mul_ps(v, v));
    }
  }
  return sum_of(_mm256_add_ps(_mm256_add_ps(sum[0], sum[2]), _mm256_add_ps(sum[1], sum[3])));
}

void scale_row(const float* x, const float* weight, float factor, int64_t size, float* y) {
  const __m256 f = _mm256_set1_ps(factor);
  for (int64_t i = 0; i < size; i += 8) {
    const __m256i mask = lanes(size - i);
    const __m256 scaled = _mm256_mul_ps(_mm256_maskload_ps(x + i, mask), f);
    _mm256_maskstore_ps(y + i, mask, _mm256_mul_ps(scaled, _mm256_maskload_ps(weight + i, mask)));
  }
}

}  // namespace

const NormBody norm_body = {sum_of_squares, scale_row};

}  // namespace pagoda::kernels::avx2
