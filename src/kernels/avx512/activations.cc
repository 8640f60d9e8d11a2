#include <immintrin.h>

#include "kernels/bodies.h"

namespace pagoda::kernels::avx512 {
namespace {

constexpr float kZeroBelow = 0x1p-100f;

void quantize(const float* x, int64_t groups, int8_t* codes, float* scales, int16_t* sums,
              float* scaled_sums) {
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  for (int64_t g = 0; g < groups; ++g, x += 32, codes += 32, sums += 2) {
    const __m512 a = _mm512_loadu_ps(x), b = _mm512_loadu_ps(x + 16);
    // Magnitudes order like their bit patterns, and a NaN's pattern is above all others.
    const __m512i largest = _mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(a), magnitude),
                                             _mm512_and_si512(_mm512_castps_si512(b), magnitude));
    const int32_t max_bits = _mm512_reduce_max_epi32(largest);
    float max;
    __builtin_memcpy(&max, &max_bits, 4);
    const bool finite = max_bits < 0x7f800000, usable = finite && max >= kZeroBelow;
    const __m512 inverse = _mm512_set1_ps(usable ? 127.0f / max : 0.0f);
    const __mmask16 keep = usable ? 0xffff : 0;
    const __m512i ca = _mm512_maskz_cvtps_epi32(keep, _mm512_mul_ps(a, inverse));
    const __m512i cb = _mm512_maskz_cvtps_epi32(keep, _mm512_mul_ps(b, inverse));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(codes), _mm512_cvtepi32_epi8(ca));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + 16), _mm512_cvtepi32_epi8(cb));
    const int sum_a = _mm512_reduce_add_epi32(ca), sum_b = _mm512_reduce_add_epi32(cb);
    sums[0] = static_cast<int16_t>(sum_a);
    sums[1] = static_cast<int16_t>(sum_b);
    scales[g] = !finite ? __builtin_nanf("") : usable ? max / 127.0f : 0.0f;
    scaled_sums[g] = scales[g] * static_cast<float>(sum_a + sum_b);
  }
}

void round_bf16(const float* x, int64_t count, uint16_t* out) {
  for (int64_t i = 0; i < count; i += 16) {
    const auto mask = static_cast<__mmask16>(count - i >= 16 ? 0xffff : (1 << (count - i)) - 1);
    const auto rounded = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, x + i)));
    _mm256_mask_storeu_epi16(out + i, mask, rounded);
  }
}

}  // namespace

const ActivationBody activation_body = {quantize, round_bf16};

}  // namespace pagoda::kernels::avx512
