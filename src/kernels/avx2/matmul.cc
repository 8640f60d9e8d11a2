// Matrix product with AVX2, FMA and F16C. The order of operations is that of MatmulPanel in bodies.h.
//
// 16 ymm hold a tile of M activation rows x Z vectors of 8 weight rows: 1 x 4, 2 x 2, 3 x 1 and 4 x 1 for
// coded layouts, so a panel is passed over 1, 2 or 4 times while it lies in the first- or second-level cache.
#include <immintrin.h>

#include "kernels/bodies.h"

#define PAGODA_INLINE static inline __attribute__((always_inline))

namespace pagoda::kernels::avx2 {
namespace {

constexpr int kCodedRows = 4;
constexpr int kVectors = 4;  // of 8 rows in a panel

PAGODA_INLINE __m256i broadcast32(const void* at) {
  int32_t word;
  __builtin_memcpy(&word, at, 4);
  return _mm256_set1_epi32(word);
}

PAGODA_INLINE __m256i load(const uint8_t* at) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
}

PAGODA_INLINE __m256 load_half(const uint8_t* at) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
}

template <int M, int Z>
PAGODA_INLINE void finish(const MatmulPanel& p, int64_t row, int first, const __m256 (&acc)[M][Z],
                          float multiplier) {
  const __m256 factor = _mm256_set1_ps(multiplier);
  for (int m = 0; m < M; ++m) {
    for (int z = 0; z < Z; ++z) {
      float* const out = p.out + (row + m) * p.out_stride + (first + z) * 8;
      __m256 y = _mm256_mul_ps(acc[m][z], factor);
      if (p.bias != nullptr) y = _mm256_add_ps(y, _mm256_loadu_ps(p.bias + (first + z) * 8));
      if (p.accumulate) y = _mm256_add_ps(y, _mm256_loadu_ps(out));
      _mm256_storeu_ps(out, y);
    }
  }
}

// c[m][z] += codes . x over kDepth <= 32 columns of 4-bit codes. Sums of 8 products of pairs stay below
// 8 x 2 x 15 x 127 = 30480, so they are added in 16 bits.
template <int kDepth, int M, int Z>
PAGODA_INLINE void dot4(const uint8_t* w, const int8_t* const (&x)[M], int64_t at, __m256i (&c)[M][Z]) {
  const __m256i low = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1);
  __m256i sum[M][Z];
  for (int m = 0; m < M; ++m) {
    for (int z = 0; z < Z; ++z) sum[m][z] = _mm256_setzero_si256();
  }
#pragma GCC unroll 4
  for (int k = 0; k < kDepth; k += 8, w += 128) {
    _mm_prefetch(reinterpret_cast<const char*>(w) + 2048, _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(w) + 2112, _MM_HINT_T0);
    for (int z = 0; z < Z; ++z) {
      const __m256i both = load(w + z * 32);
      const __m256i first = _mm256_and_si256(both, low);
      const __m256i second = _mm256_and_si256(_mm256_srli_epi16(both, 4), low);
      for (int m = 0; m < M; ++m) {
        const __m256i a = _mm256_maddubs_epi16(first, broadcast32(x[m] + at + k));
        const __m256i b = _mm256_maddubs_epi16(second, broadcast32(x[m] + at + k + 4));
        sum[m][z] = _mm256_add_epi16(sum[m][z], _mm256_add_epi16(a, b));
      }
    }
  }
  for (int m = 0; m < M; ++m) {
    for (int z = 0; z < Z; ++z) c[m][z] = _mm256_add_epi32(c[m][z], _mm256_madd_epi16(sum[m][z], ones));
  }
}

// The same for 8-bit codes, taken as code - 128: |code - 128| <= 128 as the unsigned operand, its sign moved
// to x. A pair's sum is at most 2 x 128 x 127 = 32512: nothing saturates. (Codes as they are would, at 2 x
// 255 x 127.)
template <int kDepth, int M, int Z>
PAGODA_INLINE void dot8(const uint8_t* w, const int8_t* const (&x)[M], int64_t at, __m256i (&c)[M][Z]) {
  const __m256i middle = _mm256_set1_epi8(-128), ones = _mm256_set1_epi16(1);
#pragma GCC unroll 4
  for (int k = 0; k < kDepth; k += 4, w += 128) {
    _mm_prefetch(reinterpret_cast<const char*>(w) + 2048, _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(w) + 2112, _MM_HINT_T0);
    for (int z = 0; z < Z; ++z) {
      const __m256i code = _mm256_xor_si256(load(w + z * 32), middle);
      const __m256i magnitude = _mm256_abs_epi8(code);
      for (int m = 0; m < M; ++m) {
        const __m256i signed_x = _mm256_sign_epi8(broadcast32(x[m] + at + k), code);
        c[m][z] =
            _mm256_add_epi32(c[m][z], _mm256_madd_epi16(_mm256_maddubs_epi16(magnitude, signed_x), ones));
      }
    }
  }
}

// Activation rows [row, row + M) of a panel, and how far their low codes are read.
template <int M>
struct CodedRows {
  CodedRows(const MatmulPanel& p, int64_t row) {
    for (int m = 0; m < M; ++m) {
      codes[m] = p.codes + (row + m) * p.depth;
      low_codes[m] = p.low_codes + (row + m) * p.low_depth;
      scales[m] = p.scales + (row + m) * (p.depth / 32);
      sums[m] = p.sums + (row + m) * (p.depth / 16);
      scaled_sums[m] = p.scaled_sums + (row + m) * (p.depth / 32);
    }
  }
  const int8_t *codes[M], *low_codes[M];
  const float *scales[M], *scaled_sums[M];
  const int32_t* sums[M];
  int64_t low_at = 0;
};

template <int kBits, int kDepth, int M, int Z>
PAGODA_INLINE void dot(const uint8_t* w, const int8_t* const (&x)[M], int64_t at, __m256i (&c)[M][Z]) {
  kBits == 4 ? dot4<kDepth, M, Z>(w, x, at, c) : dot8<kDepth, M, Z>(w, x, at, c);
}

// The integer sums c of kStep columns from `at` on: (code - zero_point) . x. Wide groups pass over the codes
// once for the high bytes and once for the low ones.
template <int kBits, int kStep, bool kOffsets, int M, int Z>
PAGODA_INLINE void coded_sums(const MatmulPanel& p, const uint8_t* w, int64_t at, CodedRows<M>& rows,
                              __m256i (&c)[M][Z]) {
  // dot8 takes codes as code - 128.
  const int zero_point = (kOffsets ? 0 : p.zero_point) - (kBits == 8 ? 128 : 0);
  const bool wide = p.wide[at / 32] != 0;
  int zero_term[M];
  for (int m = 0; m < M; ++m) {
    const int32_t* const sums = rows.sums[m] + at / 16;
    zero_term[m] = -zero_point * (kStep == 16 ? sums[0] : sums[0] + sums[1]);
    for (int z = 0; z < Z; ++z) c[m][z] = _mm256_set1_epi32(wide ? 0 : zero_term[m]);
  }
  dot<kBits, kStep, M, Z>(w, rows.codes, at, c);
  if (!wide) return;
  for (int m = 0; m < M; ++m) {
    for (int z = 0; z < Z; ++z) {
      c[m][z] = _mm256_add_epi32(_mm256_slli_epi32(c[m][z], 8), _mm256_set1_epi32(zero_term[m]));
    }
  }
  dot<kBits, kStep, M, Z>(w, rows.low_codes, rows.low_at, c);
  rows.low_at += kStep;
}

// kGroup: 16, 32, or 64 for any larger multiple of 32. Vectors [first, first + Z) of the panel.
template <int kBits, int kGroup, bool kOffsets, int M, int Z>
void coded_block(const MatmulPanel& p, int64_t row, int first) {
  const int group = kGroup <= 32 ? kGroup : p.group_size;
  CodedRows<M> rows(p, row);
  __m256 acc[M][Z];
  for (int m = 0; m < M; ++m) {
    for (int z = 0; z < Z; ++z) acc[m][z] = _mm256_setzero_ps();
  }
  constexpr int kStep = kGroup < 32 ? kGroup : 32;
  const uint8_t* w = p.weights;
  for (int64_t k = 0; k < p.depth; k += group) {
    const uint8_t* const scales = w + first * 16;
    w += kOffsets ? 128 : 64;
    __m256 t[M][Z];
    float u[M] = {};
    for (int m = 0; m < M; ++m) {
      for (int z = 0; z < Z; ++z) t[m][z] = _mm256_setzero_ps();
    }
    for (int part = 0; part < (kGroup <= 32 ? kStep : group); part += kStep, w += kStep * kBits * 4) {
      const int64_t at = k + part;
      __m256i c[M][Z];
      coded_sums<kBits, kStep, kOffsets, M, Z>(p, w + first * 32, at, rows, c);
      for (int m = 0; m < M; ++m) {
        const float factor = rows.scales[m][at / 32];
        if (kOffsets) {
          u[m] +=
              kStep == 16 ? factor * static_cast<float>(rows.sums[m][at / 16]) : rows.scaled_sums[m][at / 32];
        }
        const __m256 x_scale = _mm256_set1_ps(factor);
        for (int z = 0; z < Z; ++z) {
          const __m256 sum = _mm256_cvtepi32_ps(c[m][z]);
          t[m][z] = kGroup <= 32 ? _mm256_mul_ps(x_scale, sum) : _mm256_fmadd_ps(x_scale, sum, t[m][z]);
        }
      }
    }
    for (int z = 0; z < Z; ++z) {
      const __m256 scale = load_half(scales + z * 16);
      for (int m = 0; m < M; ++m) acc[m][z] = _mm256_fmadd_ps(scale, t[m][z], acc[m][z]);
      if (!kOffsets) continue;
      const __m256 offset = _mm256_mul_ps(load_half(scales + 64 + z * 16), _mm256_set1_ps(p.offset_ratio));
      for (int m = 0; m < M; ++m) acc[m][z] = _mm256_fmadd_ps(offset, _mm256_set1_ps(u[m]), acc[m][z]);
    }
  }
  finish<M, Z>(p, row, first, acc, p.multiplier);
}

template <int kBits, int kGroup, bool kOffsets, int M>
PAGODA_INLINE void coded_panel(const MatmulPanel& p, int64_t row) {
  constexpr int kWide = M == 1 ? 4 : M == 2 ? 2 : 1;
  for (int first = 0; first < kVectors; first += kWide)
    coded_block<kBits, kGroup, kOffsets, M, kWide>(p, row, first);
}

template <int kBits, int kGroup, bool kOffsets>
void coded_rows(const MatmulPanel& p) {
  const int64_t blocks = (p.rows + kCodedRows - 1) / kCodedRows;
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t row = p.rows * b / blocks;
    switch (p.rows * (b + 1) / blocks - row) {
      case 1:
        coded_panel<kBits, kGroup, kOffsets, 1>(p, row);
        break;
      case 2:
        coded_panel<kBits, kGroup, kOffsets, 2>(p, row);
        break;
      case 3:
        coded_panel<kBits, kGroup, kOffsets, 3>(p, row);
        break;
      default:
        coded_panel<kBits, kGroup, kOffsets, 4>(p, row);
        break;
    }
  }
}

template <int kBits, bool kOffsets>
void coded_groups(const MatmulPanel& p) {
  if (p.group_size == 16) return coded_rows<kBits, 16, kOffsets>(p);
  if (p.group_size == 32) return coded_rows<kBits, 32, kOffsets>(p);
  coded_rows<kBits, 64, kOffsets>(p);
}

template <int kBits>
void coded(const MatmulPanel& p) {
  p.has_offsets ? coded_groups<kBits, true>(p) : coded_groups<kBits, false>(p);
}

PAGODA_INLINE __m256 even_half(__m256i pairs) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
}
PAGODA_INLINE __m256 odd_half(__m256i pairs) {
  return _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(static_cast<int>(0xffff0000u))));
}

// bf16 is widened to f32 in registers: the upper half of a word is its odd element, the lower half shifted
// the even.
template <int M>
void bf16_block(const MatmulPanel& p, int64_t row) {
  __m256 acc[M][kVectors];
  for (int m = 0; m < M; ++m) {
    for (int z = 0; z < kVectors; ++z) acc[m][z] = _mm256_setzero_ps();
  }
  const uint8_t* w = p.weights;
  for (int64_t k = 0; k < p.depth; k += 2, w += 128) {
    _mm_prefetch(reinterpret_cast<const char*>(w) + 2048, _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(w) + 2112, _MM_HINT_T0);
    __m256 x_even[M], x_odd[M];
    for (int m = 0; m < M; ++m) {
      const __m256i pair = broadcast32(p.bf16 + (row + m) * p.depth + k);
      x_even[m] = even_half(pair);
      x_odd[m] = odd_half(pair);
    }
    for (int z = 0; z < kVectors; ++z) {
      const __m256i pairs = load(w + z * 32);
      const __m256 w_even = even_half(pairs), w_odd = odd_half(pairs);
      for (int m = 0; m < M; ++m) {
        acc[m][z] = _mm256_fmadd_ps(w_odd, x_odd[m], acc[m][z]);
        acc[m][z] = _mm256_fmadd_ps(w_even, x_even[m], acc[m][z]);
      }
    }
  }
  finish<M, kVectors>(p, row, 0, acc, 1.0f);
}

template <int M>
void f32_block(const MatmulPanel& p, int64_t row) {
  __m256 acc[M][kVectors];
  for (int m = 0; m < M; ++m) {
    for (int z = 0; z < kVectors; ++z) acc[m][z] = _mm256_setzero_ps();
  }
  const auto* w = reinterpret_cast<const float*>(p.weights);
  for (int64_t k = 0; k < p.depth; ++k, w += 32) {
    _mm_prefetch(reinterpret_cast<const char*>(w) + 2048, _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(w) + 2112, _MM_HINT_T0);
    for (int z = 0; z < kVectors; ++z) {
      const __m256 weight = _mm256_loadu_ps(w + z * 8);
      for (int m = 0; m < M; ++m) {
        acc[m][z] = _mm256_fmadd_ps(weight, _mm256_set1_ps(p.f32[(row + m) * p.depth + k]), acc[m][z]);
      }
    }
  }
  finish<M, kVectors>(p, row, 0, acc, 1.0f);
}

// Two rows x four vectors: eight chains hide the latency of an FMA.
template <bool kBf16>
void float_rows(const MatmulPanel& p) {
  int64_t row = 0;
  for (; row + 2 <= p.rows; row += 2) kBf16 ? bf16_block<2>(p, row) : f32_block<2>(p, row);
  if (row < p.rows) kBf16 ? bf16_block<1>(p, row) : f32_block<1>(p, row);
}

}  // namespace

const MatmulBody matmul_body = {float_rows<false>, float_rows<true>, coded<8>, coded<4>};

}  // namespace pagoda::kernels::avx2
