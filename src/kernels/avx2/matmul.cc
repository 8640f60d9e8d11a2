// Matrix product with AVX2, FMA and F16C. The order of operations is that of MatmulPanel in bodies.h.
//
// Coded layouts: a register tile is up to 4 activation rows x 2 vectors of 8 weight rows, or 1 x 4; its
// integer sums with the operands beside them fill the 16 ymm. The float accumulators lie in memory, where a
// group touches them once. The depth is taken in chunks that stay in the first-level cache while all rows
// pass over them. For many rows the codes of a chunk are spread out once into the operands of the
// multiplication, and 4-bit codes then leave registers for 6 x 2.
#include <immintrin.h>

#include "kernels/bodies.h"

#define PAGODA_INLINE static inline __attribute__((always_inline))

namespace pagoda::kernels::avx2 {
namespace {

constexpr int kVectors = 4;      // of 8 rows in a panel
constexpr int kBatchRows = 64;   // whose accumulators are kept at a time
constexpr int kSpreadRows = 13;  // from here on, spread codes are faster

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

// How a coded panel is computed. kGroup: 16, 32, or 64 for any larger multiple of 32. kSpread: the codes were
// spread out before.
template <int kBits_, int kGroup_, bool kOffsets_, bool kSpread_>
struct Form {
  static constexpr int kBits = kBits_, kGroup = kGroup_;
  static constexpr bool kOffsets = kOffsets_, kSpread = kSpread_;
  static constexpr int kTileRows = kSpread && kBits == 4 && kGroup <= 32 ? 6 : 4;
  static constexpr int kStep = kGroup < 32 ? kGroup : 32;             // columns of one integer sum
  static constexpr int kChunk = kSpread ? 256 : 512;                  // columns; a multiple of 128
  static constexpr int kCodeBytes = kSpread ? (kBits == 8 ? 64 : 32)  // of one column
                                            : kBits * 4;
  static constexpr int kScaleBytes = kSpread ? 4 : 2;
  static constexpr int kHeaderBytes = (kOffsets ? 64 : 32) * kScaleBytes;
};

// Columns [begin, begin + columns) of a panel.
template <class F>
struct Chunk {
  int64_t begin;
  int columns;
  int group;               // columns
  int64_t low_begin;       // where the low codes of the chunk begin in a row
  const uint8_t* wide;     // of the chunk's activation groups
  const uint8_t* weights;  // as packed, or only the codes, spread
  float offset_ratio;

  int groups() const { return columns / group; }
};

// The scales of 8 rows, and what is added of their offsets; `at`: where the scales are stored.
template <class F>
PAGODA_INLINE __m256 scale_of(const uint8_t* at) {
  return F::kSpread ? _mm256_loadu_ps(reinterpret_cast<const float*>(at)) : load_half(at);
}

template <class F>
PAGODA_INLINE __m256 offset_of(const uint8_t* at, float offset_ratio) {
  const __m256 offset = scale_of<F>(at + 32 * F::kScaleBytes);
  return F::kSpread ? offset : _mm256_mul_ps(offset, _mm256_set1_ps(offset_ratio));
}

// The columns of a chunk in M activation rows: arrays of M rows of kGroups, kTerms, .. items each, so that a
// tile reaches all rows from one pointer.
template <class F, int M>
struct ChunkRows {
  static constexpr int kGroups = F::kChunk / 32;
  static constexpr int kTerms = F::kOffsets ? 1 : F::kChunk / F::kStep;
  static constexpr int kSums = F::kOffsets ? F::kChunk / F::kStep : 1;
  static constexpr int kWords = F::kBits == 8 ? F::kChunk : 1;

  const int8_t *codes[M], *low_codes[M];
  alignas(32) float scales[M * kGroups];
  alignas(32) int32_t terms[M * kTerms];  // per step: -zero_point * sum of x
  alignas(32) float sums[M * kSums];      // per step: scale * sum of x
  alignas(32) int16_t words[M * kWords];  // x in 16 bits, in each 4 columns the order 0 2 1 3
};

// 16 codes as 16-bit numbers, in each 4 the order 0 2 1 3.
PAGODA_INLINE __m256i widen(const int8_t* codes) {
  const __m128i order = _mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15);
  const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
  return _mm256_cvtepi8_epi16(_mm_shuffle_epi8(x, order));
}

template <class F>
PAGODA_INLINE void widen_row(const Chunk<F>& chunk, const int8_t* codes, const int8_t* low, int16_t* words) {
  for (int at = 0; at < chunk.columns; at += 32) {
    const bool wide = chunk.wide[at / 32] != 0;
    for (int k = at; k < at + 32; k += 16) {
      __m256i x = widen(codes + k);
      if (wide) x = _mm256_add_epi16(_mm256_slli_epi16(x, 8), widen(low + k - at));
      _mm256_store_si256(reinterpret_cast<__m256i*>(words + k), x);
    }
    if (wide) low += 32;
  }
}

template <class F, int M>
PAGODA_INLINE void prepare(const MatmulPanel& p, const Chunk<F>& chunk, int64_t row, ChunkRows<F, M>& rows) {
  using Rows = ChunkRows<F, M>;
  const int groups = chunk.columns / 32, steps = chunk.columns / F::kStep;
  for (int m = 0; m < M; ++m) {
    rows.codes[m] = p.codes + (row + m) * p.depth + chunk.begin;
    rows.low_codes[m] = p.low_codes + (row + m) * p.low_depth + chunk.low_begin;
    const int64_t group_at = (row + m) * (p.depth / 32) + chunk.begin / 32;
    const float* const scales = p.scales + group_at;
    const int32_t* const sums = p.sums + group_at * 2;
    for (int i = 0; i < groups; ++i) rows.scales[m * Rows::kGroups + i] = scales[i];
    for (int i = 0; i < steps; ++i) {
      if (F::kOffsets) {
        rows.sums[m * Rows::kSums + i] =
            F::kStep == 16 ? scales[i / 2] * static_cast<float>(sums[i]) : p.scaled_sums[group_at + i];
      } else {
        const int32_t sum = F::kStep == 16 ? sums[i] : sums[2 * i] + sums[2 * i + 1];
        rows.terms[m * Rows::kTerms + i] = -p.zero_point * sum;
      }
    }
    if (F::kBits == 8) widen_row(chunk, rows.codes[m], rows.low_codes[m], rows.words + m * Rows::kWords);
  }
}

PAGODA_INLINE void prefetch(const uint8_t* w) {
  _mm_prefetch(reinterpret_cast<const char*>(w) + 2048, _MM_HINT_T0);
}

// The sum where it stands: gcc would regroup long integer sums into trees, compute all products first and
// spill them.
PAGODA_INLINE __m256i pinned(__m256i sum) {
  asm("" : "+x"(sum));
  return sum;
}

// Word `word` of a unit of codes of 5 or 6 bits: the codes of columns 4 * word .. 4 * word + 3 of 8 rows. The
// unit's low four bits lie before its high ones.
template <int kBits>
PAGODA_INLINE __m256i split_codes(const uint8_t* unit, int word) {
  constexpr int kColumns = kBits == 5 ? 32 : 16;
  const __m256i low_mask = _mm256_set1_epi8(15), high_mask = _mm256_set1_epi8(kBits == 5 ? 0x10 : 0x30);
  const __m256i both = load(unit + word / 2 * 128), bits = load(unit + kColumns * 16);
  const __m256i low = _mm256_and_si256(word % 2 != 0 ? _mm256_srli_epi16(both, 4) : both, low_mask);
  const int left = 4 - word * (kBits - 4);
  const __m256i high = left >= 0 ? _mm256_slli_epi16(bits, left) : _mm256_srli_epi16(bits, -left);
  return _mm256_or_si256(low, _mm256_and_si256(high, high_mask));
}

// c[m][z] += 5- or 6-bit codes . x * factor over F::kStep columns. Sums of 2 products of pairs stay below 2 x
// 2 x 63 x 127 = 32004, so they are added in 16 bits.
template <class F, int M, int Z>
PAGODA_INLINE void dot6(const uint8_t* w, const int8_t* const (&x)[M], __m256i factor, __m256i (&c)[M][Z]) {
  constexpr int kUnit = F::kBits == 5 ? 32 : 16;
#pragma GCC unroll 4
  for (int k = 0; k < F::kStep; k += 8) {
    __m256i code[2][Z];
    const uint8_t* const unit = w + k / kUnit * kUnit * F::kCodeBytes;
    for (int i = 0; i < 2; ++i) {
      for (int z = 0; z < Z; ++z) {
        code[i][z] = F::kSpread ? load(w + (k + 4 * i) * 32 + z * 32)
                                : split_codes<F::kBits>(unit + z * 32, k % kUnit / 4 + i);
        if (!F::kSpread && i == 0 && z % 2 == 0) prefetch(unit + k % kUnit * 16 + z * 32);
        if (!F::kSpread && i == 0 && z % 2 == 0 && k % kUnit == 0) prefetch(unit + kUnit * 16 + z * 32);
      }
    }
    for (int m = 0; m < M; ++m) {
      const __m256i first = broadcast32(x[m] + k), second = broadcast32(x[m] + k + 4);
      for (int z = 0; z < Z; ++z) {
        const __m256i pairs = _mm256_add_epi16(_mm256_maddubs_epi16(code[0][z], first),
                                               _mm256_maddubs_epi16(code[1][z], second));
        c[m][z] = pinned(_mm256_add_epi32(c[m][z], _mm256_madd_epi16(pairs, factor)));
      }
    }
  }
}

// 4-bit codes of F::kStep columns times V rows of bytes. Sums of 8 products of pairs stay below 8 x 2 x 15 x
// 127 = 30480, so they are added in 16 bits.
template <class F, int V, int Z>
PAGODA_INLINE void dot4(const uint8_t* w, const int8_t* const (&x)[V], __m256i (&sum)[V][Z]) {
  const __m256i low = _mm256_set1_epi8(15);
#pragma GCC unroll 8
  for (int k = 0; k < F::kStep; k += 4) {
    const bool upper = k % 8 != 0;
    __m256i code[Z];
    for (int z = 0; z < Z; ++z) {
      const uint8_t* const at = w + (F::kSpread ? k : k / 8 * 4) * 32 + z * 32;
      code[z] = load(at);
      if (F::kSpread) continue;
      code[z] = _mm256_and_si256(upper ? _mm256_srli_epi16(code[z], 4) : code[z], low);
      if (!upper && z % 2 == 0) prefetch(at);
    }
    for (int v = 0; v < V; ++v) {
      const __m256i four = broadcast32(x[v] + k);
      for (int z = 0; z < Z; ++z) {
        const __m256i product = _mm256_maddubs_epi16(code[z], four);
        sum[v][z] = pinned(k == 0 ? product : _mm256_add_epi16(sum[v][z], product));
      }
    }
  }
}

// c[m][z] += 8-bit codes . words over F::kStep columns, the even and the odd columns of 4 as pairs of 16
// bits.
template <class F, int M, int Z>
PAGODA_INLINE void dot8(const uint8_t* w, const int16_t* const (&x)[M], __m256i (&c)[M][Z]) {
  const __m256i low = _mm256_set1_epi16(255);
#pragma GCC unroll 16
  for (int k = 0; k < F::kStep; k += 2) {
    const bool upper = k % 4 != 0;
    __m256i code[Z];
    for (int z = 0; z < Z; ++z) {
      const uint8_t* const at = w + (F::kSpread ? k * 2 : k / 4 * 4) * 32 + z * 32;
      code[z] = load(at);
      if (F::kSpread) continue;
      code[z] = upper ? _mm256_srli_epi16(code[z], 8) : _mm256_and_si256(code[z], low);
      if (!upper && z % 2 == 0) prefetch(at);
    }
    for (int m = 0; m < M; ++m) {
      const __m256i two = broadcast32(x[m] + k);
      for (int z = 0; z < Z; ++z)
        c[m][z] = pinned(_mm256_add_epi32(c[m][z], _mm256_madd_epi16(code[z], two)));
    }
  }
}

// Where a tile is in its chunk.
struct Place {
  const uint8_t* codes;
  int at;      // column
  int low_at;  // low code
};

template <class F, int M>
PAGODA_INLINE __m256i term_of(const ChunkRows<F, M>& rows, int m, int at) {
  return F::kOffsets ? _mm256_setzero_si256()
                     : broadcast32(rows.terms + at / F::kStep + m * ChunkRows<F, M>::kTerms);
}

// c of rows [kFirst, kFirst + kCount) of a wide group: the codes times the high bytes and times the low ones
// in one pass.
template <int kFirst, int kCount, class F, int M, int Z>
PAGODA_INLINE void wide_sums4(const ChunkRows<F, M>& rows, const Place& place, __m256i (&c)[M][Z]) {
  const __m256i ones = _mm256_set1_epi16(1), high = _mm256_set1_epi16(256);
  const int8_t* x[2 * kCount];
  for (int m = 0; m < kCount; ++m) {
    x[2 * m] = rows.codes[kFirst + m] + place.at;
    x[2 * m + 1] = rows.low_codes[kFirst + m] + place.low_at;
  }
  __m256i sum[2 * kCount][Z];
  dot4<F>(place.codes, x, sum);
  for (int m = 0; m < kCount; ++m) {
    const __m256i term = term_of(rows, kFirst + m, place.at);
    for (int z = 0; z < Z; ++z) {
      const __m256i upper = _mm256_madd_epi16(sum[2 * m][z], high);
      const __m256i lower = _mm256_madd_epi16(sum[2 * m + 1][z], ones);
      c[kFirst + m][z] = _mm256_add_epi32(upper, F::kOffsets ? lower : _mm256_add_epi32(lower, term));
    }
  }
}

// c = (code - zero_point) . x over F::kStep columns.
template <class F, int M, int Z>
PAGODA_INLINE void coded_sums(const ChunkRows<F, M>& rows, const Place& place, bool wide,
                              __m256i (&c)[M][Z]) {
  if constexpr (F::kBits == 8) {
    const int16_t* x[M];
    for (int m = 0; m < M; ++m) {
      x[m] = rows.words + place.at + m * ChunkRows<F, M>::kWords;
      for (int z = 0; z < Z; ++z) c[m][z] = term_of(rows, m, place.at);
    }
    dot8<F>(place.codes, x, c);
  } else if constexpr (F::kBits > 4) {
    const int8_t* x[M];
    for (int m = 0; m < M; ++m) {
      x[m] = rows.codes[m] + place.at;
      for (int z = 0; z < Z; ++z) c[m][z] = term_of(rows, m, place.at);
    }
    dot6<F>(place.codes, x, _mm256_set1_epi16(wide ? 256 : 1), c);
    if (!wide) return;
    for (int m = 0; m < M; ++m) x[m] = rows.low_codes[m] + place.low_at;
    dot6<F>(place.codes, x, _mm256_set1_epi16(1), c);
  } else if (wide) {
    constexpr int kFirst = M <= 2 || (M == 3 && F::kGroup <= 32) ? M : 2;
    wide_sums4<0, kFirst>(rows, place, c);
    if constexpr (kFirst < M) wide_sums4<2, M == 3 ? 1 : 2>(rows, place, c);
    if constexpr (M > 4) wide_sums4<4, M - 4>(rows, place, c);
  } else {
    const __m256i ones = _mm256_set1_epi16(1);
    const int8_t* x[M];
    for (int m = 0; m < M; ++m) x[m] = rows.codes[m] + place.at;
    __m256i sum[M][Z];
    dot4<F>(place.codes, x, sum);
    for (int m = 0; m < M; ++m) {
      const __m256i term = term_of(rows, m, place.at);
      for (int z = 0; z < Z; ++z) {
        c[m][z] = _mm256_madd_epi16(sum[m][z], ones);
        if (!F::kOffsets) c[m][z] = _mm256_add_epi32(c[m][z], term);
      }
    }
  }
}

// t[m][z] = sum over the activation groups of a weight group of scale * c, and u[m] likewise of the sums of
// x. Moves `place` past the group.
template <class F, int M, int Z>
PAGODA_INLINE void group_sums(const Chunk<F>& chunk, const ChunkRows<F, M>& rows, Place& place,
                              __m256 (&t)[M][Z], float (&u)[M]) {
  using Rows = ChunkRows<F, M>;
  for (int part = 0; part < (F::kGroup <= 32 ? F::kStep : chunk.group); part += F::kStep) {
    const bool wide = chunk.wide[place.at / 32] != 0;
    const float* const scales = rows.scales + place.at / 32;
    const float* const sums = rows.sums + place.at / F::kStep;
    __m256i c[M][Z];
    coded_sums<F, M, Z>(rows, place, wide, c);
    for (int m = 0; m < M; ++m) {
      const __m256 x_scale = _mm256_set1_ps(scales[m * Rows::kGroups]);
      if (F::kOffsets) u[m] = F::kGroup <= 32 ? sums[m * Rows::kSums] : u[m] + sums[m * Rows::kSums];
      for (int z = 0; z < Z; ++z) {
        const __m256 sum = _mm256_cvtepi32_ps(c[m][z]);
        t[m][z] = F::kGroup <= 32 ? _mm256_mul_ps(x_scale, sum) : _mm256_fmadd_ps(x_scale, sum, t[m][z]);
      }
    }
    place.at += F::kStep;
    place.codes += F::kStep * F::kCodeBytes;
    if (wide) place.low_at += F::kStep;
  }
}

// Adds a chunk's part to acc: rows of 32 floats. Vectors [first, first + Z) of the panel.
template <class F, int M, int Z>
__attribute__((noinline)) void tile(const Chunk<F>& chunk, const ChunkRows<F, M>& rows, int first,
                                    float* acc) {
  const int group_bytes = F::kHeaderBytes + (F::kGroup <= 32 ? F::kGroup : chunk.group) * F::kCodeBytes;
  const uint8_t* scales = chunk.weights + first * 8 * F::kScaleBytes;
  const uint8_t* codes = chunk.weights + F::kHeaderBytes + first * 32;
  acc += first * 8;
  Place place = {codes, 0, 0};
  while (place.at < chunk.columns) {
    __m256 t[M][Z];
    for (int m = 0; F::kGroup > 32 && m < M; ++m) {
      for (int z = 0; z < Z; ++z) t[m][z] = _mm256_setzero_ps();
    }
    float u[M] = {};
    place.codes = codes;
    group_sums<F, M, Z>(chunk, rows, place, t, u);
    for (int z = 0; z < Z; ++z) {
      const uint8_t* const at = scales + z * 8 * F::kScaleBytes;
      const __m256 scale = scale_of<F>(at);
      const __m256 offset = F::kOffsets ? offset_of<F>(at, chunk.offset_ratio) : _mm256_setzero_ps();
      for (int m = 0; m < M; ++m) {
        __m256 sum = _mm256_fmadd_ps(scale, t[m][z], _mm256_load_ps(acc + m * 32 + z * 8));
        if (F::kOffsets) sum = _mm256_fmadd_ps(offset, _mm256_set1_ps(u[m]), sum);
        _mm256_store_ps(acc + m * 32 + z * 8, sum);
      }
    }
    scales += group_bytes;
    codes += group_bytes;
  }
}

template <class F, int M>
void chunk_rows(const MatmulPanel& p, const Chunk<F>& chunk, int64_t row, float* acc) {
  ChunkRows<F, M> rows;
  prepare(p, chunk, row, rows);
  constexpr int kWide = M == 1 ? 4 : 2;
  for (int first = 0; first < kVectors; first += kWide) tile<F, M, kWide>(chunk, rows, first, acc);
}

// Rows [row, row + count) in tiles of nearly the same size. From kSpreadRows on none has less than kTileRows
// - 2 rows.
template <class F>
void chunk_batch(const MatmulPanel& p, const Chunk<F>& chunk, int64_t row, int count, float* acc) {
  constexpr int kMost = F::kTileRows, kLeast = F::kSpread ? kMost - 2 : 1;
  const int blocks = (count + kMost - 1) / kMost;
  for (int b = 0; b < blocks; ++b) {
    const int first = count * b / blocks;
    switch (count * (b + 1) / blocks - first - kLeast) {
      case 0:
        chunk_rows<F, kLeast>(p, chunk, row + first, acc + first * 32);
        break;
      case 1:
        chunk_rows<F, kLeast + 1>(p, chunk, row + first, acc + first * 32);
        break;
      case 2:
        chunk_rows<F, kLeast + 2>(p, chunk, row + first, acc + first * 32);
        break;
      default:
        chunk_rows<F, kMost>(p, chunk, row + first, acc + first * 32);
        break;
    }
  }
}

// What the tiles of a chunk read when codes are spread. Per group: 32 scales, [32 offsets * offset_ratio] as
// floats, then per 4 columns [32][4] bytes, or for 8-bit codes [32][2] words of columns 0 and 2 and then of 1
// and 3.
template <class F>
struct Spread {
  alignas(32) uint8_t bytes[F::kChunk * F::kCodeBytes + F::kChunk / F::kStep * F::kHeaderBytes];

  void fill(const uint8_t* w, const Chunk<F>& chunk) {
    const __m256 ratio = _mm256_set1_ps(chunk.offset_ratio);
    uint8_t* to = bytes;
    for (int at = 0; at < chunk.columns; at += chunk.group) {
      for (int z = 0; z < (F::kOffsets ? 2 : 1) * kVectors; ++z, w += 16, to += 32) {
        const __m256 value = load_half(w);
        _mm256_store_ps(reinterpret_cast<float*>(to), z < kVectors ? value : _mm256_mul_ps(value, ratio));
      }
      const uint8_t* const end = w + chunk.group * F::kBits * 4;
      F::kBits == 5 || F::kBits == 6 ? spread_units(w, end, to) : spread_lines(w, end, to);
    }
  }

 private:
  // Lines of 128 bytes, each the codes of two lines in its low and high parts.
  static void spread_lines(const uint8_t*& w, const uint8_t* end, uint8_t*& to) {
    const __m256i low = F::kBits == 4 ? _mm256_set1_epi8(15) : _mm256_set1_epi16(255);
    constexpr int kShift = F::kBits == 4 ? 4 : 8;
    for (; w < end; w += 128, to += 256) {
      for (int z = 0; z < kVectors; ++z) {
        const __m256i both = load(w + z * 32);
        _mm256_store_si256(reinterpret_cast<__m256i*>(to + z * 32), _mm256_and_si256(both, low));
        _mm256_store_si256(reinterpret_cast<__m256i*>(to + 128 + z * 32),
                           _mm256_and_si256(_mm256_srli_epi16(both, kShift), low));
      }
      prefetch(w);
      prefetch(w + 64);
    }
  }

  static void spread_units(const uint8_t*& w, const uint8_t* end, uint8_t*& to) {
    constexpr int kUnitBits = F::kBits == 5 ? 5 : 6, kWords = kUnitBits == 5 ? 8 : 4;
    for (; w < end; w += kWords * 64 + 128) {
#pragma GCC unroll 8
      for (int word = 0; word < kWords; ++word, to += 128) {
        for (int z = 0; z < kVectors; ++z) {
          _mm256_store_si256(reinterpret_cast<__m256i*>(to + z * 32),
                             split_codes<kUnitBits>(w + z * 32, word));
        }
        prefetch(w + word * 64);
      }
      prefetch(w + kWords * 64);
      prefetch(w + kWords * 64 + 64);
    }
  }
};

template <class F>
void coded_batch(const MatmulPanel& p, int64_t row, int count) {
  alignas(32) float acc[F::kSpread ? kBatchRows * 32 : (kSpreadRows - 1) * 32];
  for (int i = 0; i < count * 32; ++i) acc[i] = 0;
  Chunk<F> chunk = {};
  chunk.group = p.group_size;
  chunk.offset_ratio = p.offset_ratio;
  // Chunks of nearly the same size, of whole groups.
  const int64_t chunks = (p.depth + F::kChunk - 1) / F::kChunk;
  const auto size = static_cast<int>((p.depth + chunks * 128 - 1) / (chunks * 128)) * 128;
  const uint8_t* w = p.weights;
  const int group_bytes = (F::kOffsets ? 128 : 64) + p.group_size * F::kBits * 4;
  while (chunk.begin < p.depth) {
    chunk.columns = p.depth - chunk.begin < size ? static_cast<int>(p.depth - chunk.begin) : size;
    chunk.wide = p.wide + chunk.begin / 32;
    if constexpr (F::kSpread) {
      Spread<F> spread;
      spread.fill(w, chunk);
      chunk.weights = spread.bytes;
      chunk_batch(p, chunk, row, count, acc);
    } else {
      chunk.weights = w;
      chunk_batch(p, chunk, row, count, acc);
    }
    w += chunk.groups() * group_bytes;
    for (int g = 0; g < chunk.columns / 32; ++g) chunk.low_begin += chunk.wide[g] != 0 ? 32 : 0;
    chunk.begin += chunk.columns;
  }
  for (int m = 0; m < count; ++m) {
    __m256 sums[1][kVectors];
    for (int z = 0; z < kVectors; ++z) sums[0][z] = _mm256_load_ps(acc + m * 32 + z * 8);
    finish<1, kVectors>(p, row + m, 0, sums, p.multiplier);
  }
}

template <int kBits, int kGroup, bool kOffsets>
void coded_rows(const MatmulPanel& p) {
  if (p.rows < kSpreadRows)
    return coded_batch<Form<kBits, kGroup, kOffsets, false>>(p, 0, static_cast<int>(p.rows));
  const int64_t batches = (p.rows + kBatchRows - 1) / kBatchRows;
  for (int64_t b = 0; b < batches; ++b) {
    const int64_t row = p.rows * b / batches;
    const auto count = static_cast<int>(p.rows * (b + 1) / batches - row);
    coded_batch<Form<kBits, kGroup, kOffsets, true>>(p, row, count);
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

const MatmulBody matmul_body = {float_rows<false>, float_rows<true>, coded<8>, coded<6>, coded<5>, coded<4>};

}  // namespace pagoda::kernels::avx2
