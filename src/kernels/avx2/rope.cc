#include <immintrin.h>

#include "kernels/avx2/vector.h"
#include "kernels/bodies.h"

namespace pagoda::kernels::avx2 {
namespace {

void rotate(float* x, int64_t half, const float* cos, const float* sin) {
  for (int64_t i = 0; i < half; i += 8) {
    const __m256i mask = lanes(half - i);
    const __m256 a = _mm256_maskload_ps(x + i, mask), b = _mm256_maskload_ps(x + half + i, mask);
    const __m256 c = _mm256_maskload_ps(cos + i, mask), s = _mm256_maskload_ps(sin + i, mask);
    _mm256_maskstore_ps(x + i, mask, _mm256_sub_ps(_mm256_mul_ps(a, c), _mm256_mul_ps(b, s)));
    _mm256_maskstore_ps(x + half + i, mask, _mm256_add_ps(_mm256_mul_ps(b, c), _mm256_mul_ps(a, s)));
  }
}

}  // namespace

const RopeBody rope_body = {rotate};

}  // namespace pagoda::kernels::avx2
