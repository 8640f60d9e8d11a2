#include <immintrin.h>

#include "kernels/bodies.h"

namespace pagoda::kernels::avx512 {
namespace {

constexpr float kZeroBelow = 0x1p-100f;

// Sixteen codes of a wide group to their places; what the two bytes stand for is returned.
static inline __m512i store_wide(__m512i code, int8_t* high_at, int8_t* low_at) {
  // The low byte as a signed number; what is left is a multiple of 256.
  const __m512i low = _mm512_srai_epi32(_mm512_slli_epi32(code, 24), 24);
  const __m512i high = _mm512_srai_epi32(_mm512_sub_epi32(code, low), 8);
  const __m512i kept = _mm512_max_epi32(low, _mm512_set1_epi32(-127));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(high_at), _mm512_cvtepi32_epi8(high));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(low_at), _mm512_cvtepi32_epi8(kept));
  return _mm512_add_epi32(_mm512_slli_epi32(high, 8), kept);
}

static inline __m512i store_narrow(__m512i code, int8_t* at) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(at), _mm512_cvtepi32_epi8(code));
  return code;
}

void quantize(const float* x, int64_t groups, const QuantizedGroups& out) {
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  int8_t* low = out.low_codes;
  for (int64_t g = 0; g < groups; ++g, x += 32) {
    const __m512 a = _mm512_loadu_ps(x), b = _mm512_loadu_ps(x + 16);
    // Magnitudes order like their bit patterns, and a NaN's pattern is above all others.
    const __m512i largest = _mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(a), magnitude),
                                             _mm512_and_si512(_mm512_castps_si512(b), magnitude));
    const int32_t max_bits = _mm512_reduce_max_epi32(largest);
    float max;
    __builtin_memcpy(&max, &max_bits, 4);
    const bool wide = out.wide[g] != 0;
    const float limit = wide ? 32512.0f : 127.0f;
    const bool finite = max_bits < 0x7f800000, usable = finite && max >= kZeroBelow;
    const __m512 inverse = _mm512_set1_ps(usable ? limit / max : 0.0f);
    const __mmask16 keep = usable ? 0xffff : 0;
    __m512i ca = _mm512_maskz_cvtps_epi32(keep, _mm512_mul_ps(a, inverse));
    __m512i cb = _mm512_maskz_cvtps_epi32(keep, _mm512_mul_ps(b, inverse));
    int8_t* const codes = out.codes + g * 32;
    ca = wide ? store_wide(ca, codes, low) : store_narrow(ca, codes);
    cb = wide ? store_wide(cb, codes + 16, low + 16) : store_narrow(cb, codes + 16);
    if (wide) low += 32;
    const int sum_a = _mm512_reduce_add_epi32(ca), sum_b = _mm512_reduce_add_epi32(cb);
    out.sums[g * 2] = sum_a;
    out.sums[g * 2 + 1] = sum_b;
    out.scales[g] = !finite ? __builtin_nanf("") : usable ? max / limit : 0.0f;
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

const ActivationBody activation_body = {quantize, round_bf16};

}  // namespace pagoda::kernels::avx512
