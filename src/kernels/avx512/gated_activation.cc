#include <immintrin.h>

#include "kernels/avx512/exp.h"
#include "kernels/bodies.h"

namespace pagoda::kernels::avx512 {
namespace {

// y = x / (1 + exp(-z(x))) * up
template <bool kGelu>
void gated(const float* gate, const float* up, int64_t size, float* y) {
  const __m512 one = _mm512_set1_ps(1.0f);
  for (int64_t i = 0; i < size; i += 16) {
    const auto mask = static_cast<__mmask16>(size - i >= 16 ? 0xffff : (1 << (size - i)) - 1);
    const __m512 x = _mm512_maskz_loadu_ps(mask, gate + i);
    __m512 minus_z = _mm512_sub_ps(_mm512_setzero_ps(), x);
    if (kGelu) {
      // 0.5 (1 + tanh(v)) = sigmoid(2 v), which does not cancel for negative v.
      const __m512 cubic = _mm512_mul_ps(_mm512_mul_ps(x, x), _mm512_set1_ps(0.044715f));
      minus_z = _mm512_mul_ps(_mm512_fmadd_ps(cubic, x, x), _mm512_set1_ps(-1.5957691216057308f));
    }
    const __m512 act = _mm512_div_ps(x, _mm512_add_ps(one, exp_ps(minus_z)));
    _mm512_mask_storeu_ps(y + i, mask, _mm512_mul_ps(act, _mm512_maskz_loadu_ps(mask, up + i)));
  }
}

}  // namespace

const GatedBody gated_body = {gated<false>, gated<true>};

}  // namespace pagoda::kernels::avx512
