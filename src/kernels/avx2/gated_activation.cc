#include <immintrin.h>

#include "kernels/avx2/vector.h"
#include "kernels/bodies.h"

namespace pagoda::kernels::avx2 {
namespace {

// y = x / (1 + exp(-z(x))) * up
template <bool kGelu>
void gated(const float* gate, const float* up, int64_t size, float* y) {
  const __m256 one = _mm256_set1_ps(1.0f);
  for (int64_t i = 0; i < size; i += 8) {
    const __m256i mask = lanes(size - i);
    const __m256 x = _mm256_maskload_ps(gate + i, mask);
    __m256 minus_z = _mm256_sub_ps(_mm256_setzero_ps(), x);
    if (kGelu) {
      // 0.5 (1 + tanh(v)) = sigmoid(2 v), which does not cancel for negative v.
      const __m256 cubic = _mm256_mul_ps(_mm256_mul_ps(x, x), _mm256_set1_ps(0.044715f));
      minus_z = _mm256_mul_ps(_mm256_fmadd_ps(cubic, x, x), _mm256_set1_ps(-1.5957691216057308f));
    }
    const __m256 act = _mm256_div_ps(x, _mm256_add_ps(one, exp_ps(minus_z)));
    _mm256_maskstore_ps(y + i, mask, _mm256_mul_ps(act, _mm256_maskload_ps(up + i, mask)));
  }
}

}  // namespace

const GatedBody gated_body = {gated<false>, gated<true>};

}  // namespace pagoda::kernels::avx2
