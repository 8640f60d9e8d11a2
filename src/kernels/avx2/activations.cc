#include <immintrin.h>

#include "kernels/avx2/vector.h"
#include "kernels/bodies.h"

namespace pagoda::kernels::avx2 {
namespace {

constexpr float kZeroBelow = 0x1p-100f;

// The largest magnitude of 32 floats as a bit pattern: magnitudes order like their patterns, NaN above all
// others.
static inline int32_t largest_bits(const __m256 (&v)[4]) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  __m256i max = _mm256_setzero_si256();
  for (int i = 0; i < 4; ++i)
    max = _mm256_max_epi32(max, _mm256_and_si256(_mm256_castps_si256(v[i]), magnitude));
  const __m128i four = _mm_max_epi32(_mm256_castsi256_si128(max), _mm256_extracti128_si256(max, 1));
  const __m128i two = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}

// 32 codes of 32 bits as bytes. Packing works per 128-bit lane and leaves words of four codes in the order
// 0 2 4 6 1 3 5 7.
static inline void store_bytes(const __m256i (&c)[4], int8_t* out) {
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(c[0], c[1]), _mm256_packs_epi32(c[2], c[3]));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_permutevar8x32_epi32(packed, order));
}

// Stores 32 codes of a wide group; c becomes what the two bytes stand for.
static inline void store_wide(__m256i (&c)[4], int8_t* high_at, int8_t* low_at) {
  __m256i high[4], low[4];
  for (int i = 0; i < 4; ++i) {
    // The low byte as a signed number; what is left is a multiple of 256.
    low[i] = _mm256_srai_epi32(_mm256_slli_epi32(c[i], 24), 24);
    high[i] = _mm256_srai_epi32(_mm256_sub_epi32(c[i], low[i]), 8);
    low[i] = _mm256_max_epi32(low[i], _mm256_set1_epi32(-127));
    c[i] = _mm256_add_epi32(_mm256_slli_epi32(high[i], 8), low[i]);
  }
  store_bytes(high, high_at);
  store_bytes(low, low_at);
}

void quantize(const float* x, int64_t groups, const QuantizedGroups& out) {
  int8_t* low = out.low_codes;
  for (int64_t g = 0; g < groups; ++g, x += 32) {
    const __m256 v[4] = {_mm256_loadu_ps(x), _mm256_loadu_ps(x + 8), _mm256_loadu_ps(x + 16),
                         _mm256_loadu_ps(x + 24)};
    const int32_t max_bits = largest_bits(v);
    float max;
    __builtin_memcpy(&max, &max_bits, 4);
    const bool wide = out.wide[g] != 0;
    const float limit = wide ? 32512.0f : 127.0f;
    const bool finite = max_bits < 0x7f800000, usable = finite && max >= kZeroBelow;
    const __m256 inverse = _mm256_set1_ps(usable ? limit / max : 0.0f);
    const __m256i keep = _mm256_set1_epi32(usable ? -1 : 0);
    __m256i c[4];
    for (int i = 0; i < 4; ++i)
      c[i] = _mm256_and_si256(_mm256_cvtps_epi32(_mm256_mul_ps(v[i], inverse)), keep);
    if (wide) {
      store_wide(c, out.codes + g * 32, low);
      low += 32;
    } else {
      store_bytes(c, out.codes + g * 32);
    }
    const int first = sum_of(_mm256_add_epi32(c[0], c[1])), second = sum_of(_mm256_add_epi32(c[2], c[3]));
    out.sums[g * 2] = first;
    out.sums[g * 2 + 1] = second;
    out.scales[g] = !finite ? __builtin_nanf("") : usable ? max / limit : 0.0f;
    out.scaled_sums[g] = out.scales[g] * static_cast<float>(first + second);
  }
}

void round_bf16(const float* x, int64_t count, uint16_t* out) {
  for (int64_t i = 0; i < count; i += 8) {
    const int64_t left = count - i;
    const __m256 value = _mm256_maskload_ps(x + i, lanes(left));
    const __m256i bits = _mm256_castps_si256(value);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
    const __m256i high = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, is_nan), 16);
    const __m128i packed = _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
    if (left >= 8) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), packed);
    } else {
      uint16_t tail[8];
      _mm_storeu_si128(reinterpret_cast<__m128i*>(tail), packed);
      __builtin_memcpy(out + i, tail, static_cast<size_t>(left) * 2);
    }
  }
}

}  // namespace

const ActivationBody activation_body = {quantize, round_bf16};

}  // namespace pagoda::kernels::avx2
