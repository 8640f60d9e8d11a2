#include <immintrin.h>

#include "kernels/bodies.h"

namespace pagoda::kernels::avx512 {
namespace {

constexpr float kZeroBelow = 0x1p-100f;

// Sixteen codes to their places, their sum returned.
template <int kLimit>
static inline int store_codes(__m512i code, int64_t at, const QuantizedGroups& out) {
  if (kLimit == 127) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out.codes + at), _mm512_cvtepi32_epi8(code));
    return _mm512_reduce_add_epi32(code);
  }
  // The low byte as a signed number; what is left is a multiple of 256.
  const __m512i low = _mm512_srai_epi32(_mm512_slli_epi32(code, 24), 24);
  const __m512i high = _mm512_srai_epi32(_mm512_sub_epi32(code, low), 8);
  const __m512i kept = _mm512_max_epi32(low, _mm512_set1_epi32(-127));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out.codes + at), _mm512_cvtepi32_epi8(high));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out.low_codes + at), _mm512_cvtepi32_epi8(kept));
  return _mm512_reduce_add_epi32(_mm512_add_epi32(_mm512_slli_epi32(high, 8), kept));
}

// kLimit: the largest code.
template <int kLimit>
void quantize(const float* x, int64_t groups, const QuantizedGroups& out) {
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  for (int64_t g = 0; g < groups; ++g, x += 32) {
    const __m512 a = _mm512_loadu_ps(x), b = _mm512_loadu_ps(x + 16);
    // Magnitudes order like their bit patterns, and a NaN's pattern is above all others.
    const __m512i largest = _mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(a), magnitude),
                                             _mm512_and_si512(_mm512_castps_si512(b), magnitude));
    const int32_t max_bits = _mm512_reduce_max_epi32(largest);
    float max;
    __builtin_memcpy(&max, &max_bits, 4);
    const bool finite = max_bits < 0x7f800000, usable = finite && max >= kZeroBelow;
    const __m512 inverse = _mm512_set1_ps(usable ? static_cast<float>(kLimit) / max : 0.0f);
    const __mmask16 keep = usable ? 0xffff : 0;
    const __m512i ca = _mm512_maskz_cvtps_epi32(keep, _mm512_mul_ps(a, inverse));
    const __m512i cb = _mm512_maskz_cvtps_epi32(keep, _mm512_mul_ps(b, inverse));
    const int sum_a = store_codes<kLimit>(ca, g * 32, out), sum_b = store_codes<kLimit>(cb, g * 32 + 16, out);
    out.sums[g * 2] = sum_a;
    out.sums[g * 2 + 1] = sum_b;
    out.scales[g] = !finite ? __builtin_nanf("") : usable ? max / static_cast<float>(kLimit) : 0.0f;
    out.scaled_sums[g] = out.scales[g] * static_cast<float>(sum_a + sum_b);
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

const ActivationBody activation_body = {quantize<127>, quantize<32512>, round_bf16};

}  // namespace pagoda::kernels::avx512
