#include <immintrin.h>

#include "kernels/bodies.h"

namespace pagoda::kernels::avx512 {
namespace {

void rotate(float* x, int64_t half, const float* cos, const float* sin) {
  for (int64_t i = 0; i < half; i += 16) {
    const auto mask = static_cast<__mmask16>(half - i >= 16 ? 0xffff : (1 << (half - i)) - 1);
    const __m512 a = _mm512_maskz_loadu_ps(mask, x + i), b = _mm512_maskz_loadu_ps(mask, x + half + i);
    const __m512 c = _mm512_maskz_loadu_ps(mask, cos + i), s = _mm512_maskz_loadu_ps(mask, sin + i);
    _mm512_mask_storeu_ps(x + i, mask, _mm512_sub_ps(_mm512_mul_ps(a, c), _mm512_mul_ps(b, s)));
    _mm512_mask_storeu_ps(x + half + i, mask, _mm512_add_ps(_mm512_mul_ps(b, c), _mm512_mul_ps(a, s)));
  }
}

}  // namespace

const RopeBody rope_body = {rotate};

}  // namespace pagoda::kernels::avx512
