#include <immintrin.h>

#include "kernels/avx512/exp.h"
#include "kernels/bodies.h"

namespace pagoda::kernels::avx512 {
namespace {

static inline __mmask16 lanes(int64_t left) {
  return static_cast<__mmask16>(left >= 16 ? 0xffff : (1 << left) - 1);
}

void scale(float* x, float factor, int64_t size) {
  const __m512 f = _mm512_set1_ps(factor);
  for (int64_t i = 0; i < size; i += 16) {
    const __mmask16 mask = lanes(size - i);
    _mm512_mask_storeu_ps(x + i, mask, _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + i), f));
  }
}

void cap(float* x, float factor, float limit, int64_t size) {
  const __m512 f = _mm512_set1_ps(factor), c = _mm512_set1_ps(limit);
  for (int64_t i = 0; i < size; i += 16) {
    const __mmask16 mask = lanes(size - i);
    const __m512 v = _mm512_div_ps(_mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + i), f), c);
    _mm512_mask_storeu_ps(x + i, mask, _mm512_mul_ps(c, tanh_ps(v)));
  }
}

}  // namespace

const LogitCapBody logit_cap_body = {scale, cap};

}  // namespace pagoda::kernels::avx512
