#include <immintrin.h>

#include "kernels/avx2/vector.h"
#include "kernels/bodies.h"

namespace pagoda::kernels::avx2 {
namespace {

void scale(float* x, float factor, int64_t size) {
  const __m256 f = _mm256_set1_ps(factor);
  for (int64_t i = 0; i < size; i += 8) {
    const __m256i mask = lanes(size - i);
    _mm256_maskstore_ps(x + i, mask, _mm256_mul_ps(_mm256_maskload_ps(x + i, mask), f));
  }
}

void cap(float* x, float factor, float limit, int64_t size) {
  const __m256 f = _mm256_set1_ps(factor), c = _mm256_set1_ps(limit);
  for (int64_t i = 0; i < size; i += 8) {
    const __m256i mask = lanes(size - i);
    const __m256 v = _mm256_div_ps(_mm256_mul_ps(_mm256_maskload_ps(x + i, mask), f), c);
    _mm256_maskstore_ps(x + i, mask, _mm256_mul_ps(c, tanh_ps(v)));
  }
}

}  // namespace

const LogitCapBody logit_cap_body = {scale, cap};

}  // namespace pagoda::kernels::avx2
