// Matrix product with VNNI and BF16. The order of operations is that of MatmulPanel in bodies.h.
//
// Register tiles (32 zmm): coded layouts up to 4 activation rows x 2 zmm of integer and of float
// accumulators, with operands and scales beside them; float layouts up to 8 rows x 2. Larger tiles made gcc
// 12 spill. A panel is at most a few hundred KB, so all row blocks after the first find it in the
// second-level cache.
#include <immintrin.h>

#include "kernels/bodies.h"

#define PAGODA_INLINE static inline __attribute__((always_inline))

namespace pagoda::kernels::avx512 {
namespace {

constexpr int kCodedRows = 4, kFloatRows = 8;
constexpr int64_t kPrefetchAhead = 2048;  // bytes; covers DRAM latency at the speed of one core

PAGODA_INLINE __m512i broadcast32(const void* at) {
  int32_t word;
  __builtin_memcpy(&word, at, 4);
  return _mm512_set1_epi32(word);
}

PAGODA_INLINE __m512 load_half(const uint8_t* at) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
}

PAGODA_INLINE void prefetch_step(const uint8_t* w) {
  _mm_prefetch(reinterpret_cast<const char*>(w) + kPrefetchAhead, _MM_HINT_T0);
  _mm_prefetch(reinterpret_cast<const char*>(w) + kPrefetchAhead + 64, _MM_HINT_T0);
}

template <int M>
PAGODA_INLINE void finish(const MatmulPanel& p, int64_t row, const __m512 (&acc)[M][2], float multiplier) {
  const __m512 factor = _mm512_set1_ps(multiplier);
  for (int m = 0; m < M; ++m) {
    for (int z = 0; z < 2; ++z) {
      float* const out = p.out + (row + m) * p.out_stride + z * 16;
      __m512 y = _mm512_mul_ps(acc[m][z], factor);
      if (p.bias != nullptr) y = _mm512_add_ps(y, _mm512_loadu_ps(p.bias + z * 16));
      if (p.accumulate) y = _mm512_add_ps(y, _mm512_loadu_ps(out));
      _mm512_storeu_ps(out, y);
    }
  }
}

// Bits from `from` on moved to bit 4 of each byte, below and above them what is masked away.
PAGODA_INLINE __m512i to_bit_4(__m512i bytes, int from) {
  switch (from) {  // a constant where this is inlined
    case 0:
      return _mm512_slli_epi16(bytes, 4);
    case 1:
      return _mm512_slli_epi16(bytes, 3);
    case 2:
      return _mm512_slli_epi16(bytes, 2);
    case 3:
      return _mm512_slli_epi16(bytes, 1);
    case 4:
      return bytes;
    case 5:
      return _mm512_srli_epi16(bytes, 1);
    case 6:
      return _mm512_srli_epi16(bytes, 2);
    default:
      return _mm512_srli_epi16(bytes, 3);
  }
}

// Puts the bits above the fourth into the codes of columns 4 * word .. 4 * word + 3 of a unit.
template <int kBits>
PAGODA_INLINE __m512i add_high_bits(__m512i codes, __m512i high, int word) {
  const __m512i mask = _mm512_set1_epi8(kBits == 5 ? 0x10 : 0x30);
  constexpr int kCodesOrHighAndMask = 0xf8;
  return _mm512_ternarylogic_epi32(codes, to_bit_4(high, word * (kBits - 4)), mask, kCodesOrHighAndMask);
}

// c[m][z] += codes . x[m] over kDepth columns; returns where the codes end. One row alone has too few chains
// to hide the latency of vpdpbusd, so it sums into a second pair: integer sums don't depend on the order.
template <int kBits, int kDepth, bool kPrefetch, int M>
PAGODA_INLINE const uint8_t* dot(const uint8_t* w, const int8_t* const (&x)[M], __m512i (&c)[M][2]) {
  const __m512i low = _mm512_set1_epi8(15);
  constexpr int kUnit = kBits == 5 ? 32 : 16;  // columns before their high bits
  __m512i d[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
  __m512i high[2];
#pragma GCC unroll 4
  for (int k = 0; k < kDepth; k += 8) {
    // Words 0, 1: the 32 rows at columns k .. k + 3; words 2, 3: at k + 4 .. k + 7.
    __m512i word[4];
    word[0] = _mm512_loadu_si512(w);
    word[1] = _mm512_loadu_si512(w + 64);
    if (kPrefetch) prefetch_step(w);
    if ((kBits == 5 || kBits == 6) && k % kUnit == 0) {
      high[0] = _mm512_loadu_si512(w + kUnit * 16);
      high[1] = _mm512_loadu_si512(w + kUnit * 16 + 64);
      if (kPrefetch) prefetch_step(w + kUnit * 16);
    }
    if (kBits < 8) {
      word[2] = _mm512_and_si512(_mm512_srli_epi16(word[0], 4), low);
      word[3] = _mm512_and_si512(_mm512_srli_epi16(word[1], 4), low);
      word[0] = _mm512_and_si512(word[0], low);
      word[1] = _mm512_and_si512(word[1], low);
      if (kBits > 4) {
        const int at_word = k % kUnit / 4;
        for (int i = 0; i < 4; ++i) word[i] = add_high_bits<kBits>(word[i], high[i % 2], at_word + i / 2);
      }
      w += kBits > 4 && (k + 8) % kUnit == 0 ? 256 : 128;
    } else {
      word[2] = _mm512_loadu_si512(w + 128);
      word[3] = _mm512_loadu_si512(w + 192);
      if (kPrefetch) prefetch_step(w + 128);
      w += 256;
    }
    for (int m = 0; m < M; ++m) {
      const __m512i first = broadcast32(x[m] + k), second = broadcast32(x[m] + k + 4);
      c[m][0] = _mm512_dpbusd_epi32(c[m][0], word[0], first);
      c[m][1] = _mm512_dpbusd_epi32(c[m][1], word[1], first);
      __m512i(&chain)[2] = M == 1 ? d : c[m];
      chain[0] = _mm512_dpbusd_epi32(chain[0], word[2], second);
      chain[1] = _mm512_dpbusd_epi32(chain[1], word[3], second);
    }
  }
  if (M == 1) {
    c[0][0] = _mm512_add_epi32(c[0][0], d[0]);
    c[0][1] = _mm512_add_epi32(c[0][1], d[1]);
  }
  return w;
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

// -zero_point * sum of x over kStep columns from `at` on.
template <int kStep, bool kOffsets, int M>
PAGODA_INLINE __m512i zero_term(const MatmulPanel& p, const CodedRows<M>& rows, int m, int64_t at) {
  if (kOffsets) return _mm512_setzero_si512();
  const int32_t* const sums = rows.sums[m] + at / 16;
  return _mm512_set1_epi32(-p.zero_point * (kStep == 16 ? sums[0] : sums[0] + sums[1]));
}

// The integer sums c of a wide group: 256 times that of the high bytes plus that of the low ones. Few rows
// meet the codes once with both, more would not fit the registers. Returns where the codes end.
template <int kBits, int kStep, int M>
PAGODA_INLINE const uint8_t* wide_sums(const uint8_t* w, const int8_t* const (&high)[M],
                                       const int8_t* const (&low)[M], __m512i (&c)[M][2]) {
  constexpr int kTogether = M <= 2 ? M : 1;  // one even when unused, as arrays can't be empty
  if (M <= 2) {
    const int8_t* x[2 * kTogether];
    __m512i sums[2 * kTogether][2];
    for (int i = 0; i < 2 * kTogether; ++i) {
      x[i] = i < kTogether ? high[i] : low[i - kTogether];
      sums[i][0] = sums[i][1] = _mm512_setzero_si512();
    }
    const uint8_t* const end = dot<kBits, kStep, true>(w, x, sums);
    for (int m = 0; m < kTogether; ++m) {
      for (int z = 0; z < 2; ++z) {
        c[m][z] = _mm512_add_epi32(_mm512_slli_epi32(sums[m][z], 8), sums[kTogether + m][z]);
      }
    }
    return end;
  }
  for (int m = 0; m < M; ++m) c[m][0] = c[m][1] = _mm512_setzero_si512();
  const uint8_t* const end = dot<kBits, kStep, true>(w, high, c);
  for (int m = 0; m < M; ++m) {
    for (int z = 0; z < 2; ++z) c[m][z] = _mm512_slli_epi32(c[m][z], 8);
  }
  dot<kBits, kStep, false>(w, low, c);
  return end;
}

// The integer sums c of kStep columns from `at` on: (code - zero_point) . x. Returns where the codes end.
template <int kBits, int kStep, bool kOffsets, int M>
PAGODA_INLINE const uint8_t* coded_sums(const MatmulPanel& p, const uint8_t* w, int64_t at,
                                        CodedRows<M>& rows, __m512i (&c)[M][2]) {
  const int8_t *x[M], *low[M];
  for (int m = 0; m < M; ++m) {
    x[m] = rows.codes[m] + at;
    low[m] = rows.low_codes[m] + rows.low_at;
  }
  if (p.wide[at / 32] != 0) {
    const uint8_t* const end = wide_sums<kBits, kStep>(w, x, low, c);
    rows.low_at += kStep;
    for (int m = 0; !kOffsets && m < M; ++m) {
      const __m512i term = zero_term<kStep, kOffsets>(p, rows, m, at);
      for (int z = 0; z < 2; ++z) c[m][z] = _mm512_add_epi32(c[m][z], term);
    }
    return end;
  }
  for (int m = 0; m < M; ++m) c[m][0] = c[m][1] = zero_term<kStep, kOffsets>(p, rows, m, at);
  return dot<kBits, kStep, true>(w, x, c);
}

// kGroup: 16, 32, or 64 for any larger multiple of 32.
template <int kBits, int kGroup, bool kOffsets, int M>
void coded_block(const MatmulPanel& p, int64_t row) {
  const int group = kGroup <= 32 ? kGroup : p.group_size;
  CodedRows<M> rows(p, row);
  __m512 acc[M][2];
  for (int m = 0; m < M; ++m) acc[m][0] = acc[m][1] = _mm512_setzero_ps();
  const uint8_t* w = p.weights;
  for (int64_t first = 0; first < p.depth; first += group) {
    const __m512 scale[2] = {load_half(w), load_half(w + 32)};
    __m512 offset[2];
    if (kOffsets) {
      const __m512 ratio = _mm512_set1_ps(p.offset_ratio);
      offset[0] = _mm512_mul_ps(load_half(w + 64), ratio);
      offset[1] = _mm512_mul_ps(load_half(w + 96), ratio);
    }
    w += kOffsets ? 128 : 64;
    __m512 t[M][2];
    float u[M] = {};
    for (int m = 0; m < M; ++m) t[m][0] = t[m][1] = _mm512_setzero_ps();
    constexpr int kStep = kGroup < 32 ? kGroup : 32;
    for (int part = 0; part < (kGroup <= 32 ? kStep : group); part += kStep) {
      const int64_t at = first + part;
      __m512i c[M][2];
      w = coded_sums<kBits, kStep, kOffsets, M>(p, w, at, rows, c);
      for (int m = 0; m < M; ++m) {
        const float factor = rows.scales[m][at / 32];
        if (kOffsets) {
          u[m] +=
              kStep == 16 ? factor * static_cast<float>(rows.sums[m][at / 16]) : rows.scaled_sums[m][at / 32];
        }
        const __m512 x_scale = _mm512_set1_ps(factor);
        for (int z = 0; z < 2; ++z) {
          const __m512 sum = _mm512_cvtepi32_ps(c[m][z]);
          t[m][z] = kGroup <= 32 ? _mm512_mul_ps(x_scale, sum) : _mm512_fmadd_ps(x_scale, sum, t[m][z]);
        }
      }
    }
    for (int m = 0; m < M; ++m) {
      for (int z = 0; z < 2; ++z) {
        acc[m][z] = _mm512_fmadd_ps(scale[z], t[m][z], acc[m][z]);
        if (kOffsets) acc[m][z] = _mm512_fmadd_ps(offset[z], _mm512_set1_ps(u[m]), acc[m][z]);
      }
    }
  }
  finish<M>(p, row, acc, p.multiplier);
}

template <int kBits, int kGroup, bool kOffsets>
void coded_rows(const MatmulPanel& p) {
  // Split evenly: 5 rows are 3 + 2, not 4 + 1.
  const int64_t blocks = (p.rows + kCodedRows - 1) / kCodedRows;
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t row = p.rows * b / blocks;
    switch (p.rows * (b + 1) / blocks - row) {
      case 1:
        coded_block<kBits, kGroup, kOffsets, 1>(p, row);
        break;
      case 2:
        coded_block<kBits, kGroup, kOffsets, 2>(p, row);
        break;
      case 3:
        coded_block<kBits, kGroup, kOffsets, 3>(p, row);
        break;
      default:
        coded_block<kBits, kGroup, kOffsets, 4>(p, row);
        break;
    }
  }
}

template <int kBits, bool kOffsets>
void coded_groups(const MatmulPanel& p) {
  if constexpr (kBits != 5) {
    if (p.group_size == 16) return coded_rows<kBits, 16, kOffsets>(p);
  }
  if (p.group_size == 32) return coded_rows<kBits, 32, kOffsets>(p);
  coded_rows<kBits, 64, kOffsets>(p);
}

template <int kBits>
void coded(const MatmulPanel& p) {
  p.has_offsets ? coded_groups<kBits, true>(p) : coded_groups<kBits, false>(p);
}

template <int M>
void bf16_block(const MatmulPanel& p, int64_t row) {
  const uint16_t* x[M];
  for (int m = 0; m < M; ++m) x[m] = p.bf16 + (row + m) * p.depth;
  __m512 acc[M][2];
  for (int m = 0; m < M; ++m) acc[m][0] = acc[m][1] = _mm512_setzero_ps();
  const uint8_t* w = p.weights;
  for (int64_t k = 0; k < p.depth; k += 2, w += 128) {
    const auto w0 = reinterpret_cast<__m512bh>(_mm512_loadu_si512(w));
    const auto w1 = reinterpret_cast<__m512bh>(_mm512_loadu_si512(w + 64));
    prefetch_step(w);
    for (int m = 0; m < M; ++m) {
      const auto pair = reinterpret_cast<__m512bh>(broadcast32(x[m] + k));
      acc[m][0] = _mm512_dpbf16_ps(acc[m][0], w0, pair);
      acc[m][1] = _mm512_dpbf16_ps(acc[m][1], w1, pair);
    }
  }
  finish<M>(p, row, acc, 1.0f);
}

template <int M>
void f32_block(const MatmulPanel& p, int64_t row) {
  const float* x[M];
  for (int m = 0; m < M; ++m) x[m] = p.f32 + (row + m) * p.depth;
  __m512 acc[M][2];
  for (int m = 0; m < M; ++m) acc[m][0] = acc[m][1] = _mm512_setzero_ps();
  const uint8_t* w = p.weights;
  for (int64_t k = 0; k < p.depth; ++k, w += 128) {
    const __m512 w0 = _mm512_loadu_ps(w), w1 = _mm512_loadu_ps(w + 64);
    prefetch_step(w);
    for (int m = 0; m < M; ++m) {
      const __m512 value = _mm512_set1_ps(x[m][k]);
      acc[m][0] = _mm512_fmadd_ps(w0, value, acc[m][0]);
      acc[m][1] = _mm512_fmadd_ps(w1, value, acc[m][1]);
    }
  }
  finish<M>(p, row, acc, 1.0f);
}

template <bool kBf16, int M>
PAGODA_INLINE void float_block(const MatmulPanel& p, int64_t row) {
  kBf16 ? bf16_block<M>(p, row) : f32_block<M>(p, row);
}

template <bool kBf16>
void float_rows(const MatmulPanel& p) {
  const int64_t blocks = (p.rows + kFloatRows - 1) / kFloatRows;
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t row = p.rows * b / blocks;
    switch (p.rows * (b + 1) / blocks - row) {
      case 1:
        float_block<kBf16, 1>(p, row);
        break;
      case 2:
        float_block<kBf16, 2>(p, row);
        break;
      case 3:
        float_block<kBf16, 3>(p, row);
        break;
      case 4:
        float_block<kBf16, 4>(p, row);
        break;
      case 5:
        float_block<kBf16, 5>(p, row);
        break;
      case 6:
        float_block<kBf16, 6>(p, row);
        break;
      case 7:
        float_block<kBf16, 7>(p, row);
        break;
      default:
        float_block<kBf16, 8>(p, row);
        break;
    }
  }
}

}  // namespace

const MatmulBody matmul_body = {float_rows<false>, float_rows<true>, coded<8>, coded<6>, coded<5>, coded<4>};

}  // namespace pagoda::kernels::avx512
