// Attention of up to 8 query rows over one partition, in f32 arithmetic: keys and values of 16 bits are
// widened in registers, and weights stay f32. Caches of int8 codes are multiplied in integers (bodies.h). 16
// ymm hold a tile of 4 rows x 2 vectors.
#include <immintrin.h>

#include "kernels/avx2/vector.h"
#include "kernels/bodies.h"

#define PAGODA_INLINE static inline __attribute__((always_inline))

namespace pagoda::kernels::avx2 {
namespace {

constexpr int kBlock = kAttentionBlockTokens;
constexpr int kRows = 4;    // rows of one register tile
constexpr int kChunk = 16;  // dimensions of V in one pass

enum class Kv { kF32, kF16, kBf16 };

PAGODA_INLINE __m256 even_half(__m256i pairs) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
}
PAGODA_INLINE __m256 odd_half(__m256i pairs) {
  return _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(static_cast<int>(0xffff0000u))));
}
PAGODA_INLINE __m256i load(const uint8_t* at) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
}

PAGODA_INLINE void prefetch(const uint8_t* at, int line) {
  _mm_prefetch(reinterpret_cast<const char*>(at) + line * 64, _MM_HINT_T1);
}

PAGODA_INLINE __m128i load_half(const uint8_t* at) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
}

template <Kv kKv>
PAGODA_INLINE __m256 load_keys(const uint8_t* k, int first) {
  if constexpr (kKv == Kv::kF16) return _mm256_cvtph_ps(load_half(k + first * 2));
  return _mm256_loadu_ps(reinterpret_cast<const float*>(k) + first);
}

// Scores of rows [row, row + R) and the 16 tokens of block b; the odd dimension of a pair comes first.
template <Kv kKv, int R>
void score(AttentionTile& tile, int row, int b) {
  const int dim = tile.head_dim;
  const uint8_t* k = tile.k_blocks[b];
  // A null area is replaced by the block itself: a prefetch of what is there costs less than a branch.
  const uint8_t* const first = tile.beside_scores[0][b] != nullptr ? tile.beside_scores[0][b] : k;
  const uint8_t* const second = tile.beside_scores[1][b] != nullptr ? tile.beside_scores[1][b] : k;
  __m256 acc[R][2];
  for (int r = 0; r < R; ++r) acc[r][0] = acc[r][1] = _mm256_setzero_ps();
  const int steps = kKv == Kv::kBf16 ? dim / 2 : dim;
  for (int d = 0; d < steps; ++d, k += kKv == Kv::kF16 ? 32 : 64) {
    const int line = kKv == Kv::kF16 ? d / 2 : d;
    prefetch(first, line);
    prefetch(second, line);
    if constexpr (kKv == Kv::kBf16) {
      const __m256i low = load(k), high = load(k + 32);
      const __m256 low_odd = odd_half(low), high_odd = odd_half(high);
      const __m256 low_even = even_half(low), high_even = even_half(high);
      for (int r = 0; r < R; ++r) {
        int32_t word;
        __builtin_memcpy(&word, tile.q + ((row + r) * dim + d * 2) * 2, 4);
        const __m256i pair = _mm256_set1_epi32(word);
        const __m256 odd = odd_half(pair), even = even_half(pair);
        acc[r][0] = _mm256_fmadd_ps(low_even, even, _mm256_fmadd_ps(low_odd, odd, acc[r][0]));
        acc[r][1] = _mm256_fmadd_ps(high_even, even, _mm256_fmadd_ps(high_odd, odd, acc[r][1]));
      }
    } else {
      const __m256 low = load_keys<kKv>(k, 0), high = load_keys<kKv>(k, 8);
      for (int r = 0; r < R; ++r) {
        const __m256 q = _mm256_set1_ps(reinterpret_cast<const float*>(tile.q)[(row + r) * dim + d]);
        acc[r][0] = _mm256_fmadd_ps(low, q, acc[r][0]);
        acc[r][1] = _mm256_fmadd_ps(high, q, acc[r][1]);
      }
    }
  }
  const __m256 scale = _mm256_set1_ps(tile.scale);
  for (int r = 0; r < R; ++r) {
    float* const scores = tile.scores + (row + r) * kAttentionPartition + b * kBlock;
    _mm256_storeu_ps(scores, _mm256_mul_ps(acc[r][0], scale));
    _mm256_storeu_ps(scores + 8, _mm256_mul_ps(acc[r][1], scale));
  }
}

// Turns a row's scores into weights exp(s - max), which are 0 for tokens of its boundary blocks outside its
// range.
void soften(AttentionTile& tile, int row) {
  const int begin = tile.begin[row], end = tile.end[row];
  const __m256 none = _mm256_set1_ps(-__builtin_inff());
  const __m256 cap = _mm256_set1_ps(tile.softcap), inverse_cap = _mm256_set1_ps(1.0f / tile.softcap);
  float* const scores = tile.scores + row * kAttentionPartition;
  __m256 max = none;
  for (int t = begin / 8 * 8; t < end; t += 8) {
    __m256 s = _mm256_loadu_ps(scores + t);
    if (tile.softcap != 0) s = _mm256_mul_ps(cap, tanh_ps(_mm256_mul_ps(s, inverse_cap)));
    const __m256i inside = _mm256_andnot_si256(lanes(begin - t), lanes(end - t));
    s = _mm256_blendv_ps(none, s, _mm256_castsi256_ps(inside));
    _mm256_storeu_ps(scores + t, s);
    max = _mm256_max_ps(s, max);
  }
  const float row_max = max_of(max);
  tile.max[row] = row_max;
  const __m256 reference = _mm256_set1_ps(row_max == -__builtin_inff() ? 0.0f : row_max);
  __m256 sum = _mm256_setzero_ps();
  for (int t = begin / 8 * 8; t < end; t += 8) {
    const __m256 weight = exp_ps(_mm256_sub_ps(_mm256_loadu_ps(scores + t), reference));
    sum = _mm256_add_ps(sum, weight);
    _mm256_storeu_ps(scores + t, weight);
  }
  tile.sum[row] = sum_of(sum);
}

// Dimensions [first, first + 8) of a token's values as floats; 0 past the head's end.
template <Kv kKv>
PAGODA_INLINE __m256 load_values(const uint8_t* v, int first, int left) {
  if constexpr (kKv != Kv::kF32) {
    alignas(16) uint16_t tail[8] = {};
    const auto* at = reinterpret_cast<const uint16_t*>(v) + first;
    if (left < 8) {
      if (left > 0) __builtin_memcpy(tail, at, static_cast<size_t>(left) * 2);
      at = tail;
    }
    const __m128i eight = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    if constexpr (kKv == Kv::kF16) return _mm256_cvtph_ps(eight);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(eight), 16));
  } else {
    return _mm256_maskload_ps(reinterpret_cast<const float*>(v) + first, lanes(left));
  }
}

// Adds tokens [begin, end) to R rows. kRagged: a row takes only the tokens of its own range.
template <Kv kKv, bool kRagged, int R>
PAGODA_INLINE void add_tokens(const AttentionTile& tile, int row, int begin, int end, int first,
                              __m256 (&acc)[R][2]) {
  const int dim = tile.head_dim, row_bytes = dim * (kKv == Kv::kF32 ? 4 : 2);
  const float* const weights = tile.scores + row * kAttentionPartition;
  for (int t = begin; t < end; ++t) {
    const int b = t / kBlock;
    const uint8_t* const v = tile.v_blocks[b] + t % kBlock * row_bytes;
    // All passes over a block together take two steps (f32: one) for each line of an area.
    const int line = (first / kChunk * kBlock + t % kBlock) * (kKv == Kv::kF32 ? 2 : 1) / 2;
    prefetch(tile.beside_values[0][b] != nullptr ? tile.beside_values[0][b] : v, line);
    prefetch(tile.beside_values[1][b] != nullptr ? tile.beside_values[1][b] : v, line);
    const __m256 low = load_values<kKv>(v, first, dim - first);
    const __m256 high = load_values<kKv>(v, first + 8, dim - first - 8);
    for (int r = 0; r < R; ++r) {
      if (kRagged && (t < tile.begin[row + r] || t >= tile.end[row + r])) continue;
      const __m256 weight = _mm256_set1_ps(weights[r * kAttentionPartition + t]);
      acc[r][0] = _mm256_fmadd_ps(low, weight, acc[r][0]);
      acc[r][1] = _mm256_fmadd_ps(high, weight, acc[r][1]);
    }
  }
}

// The weighted values of rows [row, row + R), each of which has tokens. [common_begin, common_end) belongs to
// all of them, the rest of [lowest, highest) to some.
template <Kv kKv, int R>
void sum_values(const AttentionTile& tile, int row) {
  int lowest = kAttentionPartition, highest = 0, common_begin = 0, common_end = kAttentionPartition;
  for (int r = row; r < row + R; ++r) {
    const int begin = tile.begin[r], end = tile.end[r];
    lowest = begin < lowest ? begin : lowest;
    highest = end > highest ? end : highest;
    common_begin = begin > common_begin ? begin : common_begin;
    common_end = end < common_end ? end : common_end;
  }
  if (common_begin >= common_end) common_begin = common_end = highest;
  for (int first = 0; first < tile.head_dim; first += kChunk) {
    __m256 acc[R][2];
    for (int r = 0; r < R; ++r) acc[r][0] = acc[r][1] = _mm256_setzero_ps();
    add_tokens<kKv, true, R>(tile, row, lowest, common_begin, first, acc);
    add_tokens<kKv, false, R>(tile, row, common_begin, common_end, first, acc);
    add_tokens<kKv, true, R>(tile, row, common_end, highest, first, acc);
    for (int r = 0; r < R; ++r) {
      float* const values = tile.values + (row + r) * tile.value_stride + first;
      _mm256_storeu_ps(values, acc[r][0]);
      _mm256_storeu_ps(values + 8, acc[r][1]);
    }
  }
  // The padding of a value row up to its stride is read when rows are merged.
  for (int64_t d = (tile.head_dim + kChunk - 1) / kChunk * kChunk; d < tile.value_stride; d += 8) {
    for (int r = 0; r < R; ++r)
      _mm256_storeu_ps(tile.values + (row + r) * tile.value_stride + d, _mm256_setzero_ps());
  }
}

using ScoreFunction = void (*)(AttentionTile&, int, int);
using ValueFunction = void (*)(const AttentionTile&, int);

template <Kv kKv>
constexpr ScoreFunction kScore[kRows] = {score<kKv, 1>, score<kKv, 2>, score<kKv, 3>, score<kKv, 4>};
template <Kv kKv>
constexpr ValueFunction kSumValues[kRows] = {sum_values<kKv, 1>, sum_values<kKv, 2>, sum_values<kKv, 3>,
                                             sum_values<kKv, 4>};

PAGODA_INLINE __m256i load_codes(const uint8_t* at) {
  return _mm256_cvtepi8_epi16(load_half(at));
}

PAGODA_INLINE const float* scales_of(const AttentionTile& tile, const uint8_t* block) {
  return reinterpret_cast<const float*>(block + tile.head_dim * kBlock);
}

// The same for int8 codes: 32 bytes are a pair of dimensions.
template <int R>
void score_int8(AttentionTile& tile, int row, int b) {
  const int dim = tile.head_dim;
  const uint8_t* const k = tile.k_blocks[b];
  const uint8_t* const first = tile.beside_scores[0][b] != nullptr ? tile.beside_scores[0][b] : k;
  const uint8_t* const second = tile.beside_scores[1][b] != nullptr ? tile.beside_scores[1][b] : k;
  const auto* const q = reinterpret_cast<const int16_t*>(tile.q) + row * dim;
  __m256i acc[R][2];
  for (int r = 0; r < R; ++r) acc[r][0] = acc[r][1] = _mm256_setzero_si256();
  for (int d = 0; d < dim / 2; ++d) {
    prefetch(first, d / 2);
    prefetch(second, d / 2);
    const __m256i low = load_codes(k + d * 32), high = load_codes(k + d * 32 + 16);
    for (int r = 0; r < R; ++r) {
      int32_t word;
      __builtin_memcpy(&word, q + r * dim + d * 2, 4);
      const __m256i pair = _mm256_set1_epi32(word);
      acc[r][0] = _mm256_add_epi32(acc[r][0], _mm256_madd_epi16(low, pair));
      acc[r][1] = _mm256_add_epi32(acc[r][1], _mm256_madd_epi16(high, pair));
    }
  }
  prefetch(first, dim / 4);  // the scales
  prefetch(second, dim / 4);
  const float* const scales = scales_of(tile, k);
  const __m256 low_scale = _mm256_loadu_ps(scales), high_scale = _mm256_loadu_ps(scales + 8);
  for (int r = 0; r < R; ++r) {
    float* const scores = tile.scores + (row + r) * kAttentionPartition + b * kBlock;
    const __m256 scale = _mm256_set1_ps(tile.q_scale[row + r] * tile.scale);
    _mm256_storeu_ps(scores, _mm256_mul_ps(_mm256_cvtepi32_ps(acc[r][0]), _mm256_mul_ps(scale, low_scale)));
    _mm256_storeu_ps(scores + 8,
                     _mm256_mul_ps(_mm256_cvtepi32_ps(acc[r][1]), _mm256_mul_ps(scale, high_scale)));
  }
}

// Of lanes from 0 on.
int32_t largest_lane(__m256i x) {
  alignas(32) int32_t each[8];
  _mm256_store_si256(reinterpret_cast<__m256i*>(each), x);
  int32_t largest = 0;
  for (const int32_t lane : each) largest = lane > largest ? lane : largest;
  return largest;
}

// Turns a row's weights times the values' scales into codes, which are 0 outside its range; returns what one
// of them stands for.
float round_weights(AttentionTile& tile, int row, const BlockRange& blocks) {
  const int begin = tile.begin[row], end = tile.end[row];
  float* const weights = tile.scores + row * kAttentionPartition;
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  __m256i largest =
      _mm256_setzero_si256();  // the bits of floats from 0 on are in order, NaN above all others
  for (int t = begin / 8 * 8; t < end; t += 8) {
    const __m256i inside = _mm256_andnot_si256(lanes(begin - t), lanes(end - t));
    const float* const scales = scales_of(tile, tile.v_blocks[t / kBlock]) + t % kBlock;
    const __m256 weight = _mm256_mul_ps(_mm256_loadu_ps(weights + t), _mm256_loadu_ps(scales));
    const __m256i bits = _mm256_and_si256(_mm256_castps_si256(weight), _mm256_and_si256(inside, magnitude));
    _mm256_storeu_ps(weights + t, _mm256_castsi256_ps(bits));
    largest = _mm256_max_epi32(largest, bits);
  }
  const int32_t bits = largest_lane(largest);
  float max;
  __builtin_memcpy(&max, &bits, 4);
  const __m256 factor = _mm256_set1_ps(max >= 0x1p-100f ? 32767 / max : 0);
  auto* const codes = reinterpret_cast<int16_t*>(tile.weights) + row * kAttentionPartition;
  for (int t = blocks.begin * kBlock; t < blocks.end * kBlock; t += 8) {
    __m128i code = _mm_setzero_si128();
    if (t + 8 > begin && t < end) {
      const __m256i wide = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(weights + t), factor));
      code = _mm_packs_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
    }
    _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + t), code);
  }
  return max < 0x1p-100f ? 0 : max / 32767;
}

// 8 dimensions of a pair of tokens; 0 past the head's end.
PAGODA_INLINE __m256i load_value_codes(const uint8_t* v, int first, int left) {
  if (left >= 8) return load_codes(v + first * 2);
  alignas(16) uint8_t tail[16] = {};
  if (left > 0) __builtin_memcpy(tail, v + first * 2, static_cast<size_t>(left) * 2);
  return load_codes(tail);
}

// The weighted values of rows [row, row + R). A code outside a row's range meets a weight of 0.
template <int R>
void sum_values_int8(const AttentionTile& tile, int row, const BlockRange& blocks,
                     const float (&steps)[kRows]) {
  const int dim = tile.head_dim;
  const auto* const weights = reinterpret_cast<const int16_t*>(tile.weights) + row * kAttentionPartition;
  for (int first = 0; first < tile.value_stride; first += kChunk) {
    __m256i acc[R][2];
    for (int r = 0; r < R; ++r) acc[r][0] = acc[r][1] = _mm256_setzero_si256();
    for (int b = blocks.begin; first < dim && b < blocks.end; ++b) {
      const uint8_t* const block = tile.v_blocks[b];
      const uint8_t* const one = tile.beside_values[0][b] != nullptr ? tile.beside_values[0][b] : block;
      const uint8_t* const two = tile.beside_values[1][b] != nullptr ? tile.beside_values[1][b] : block;
      for (int pair = 0; pair < kBlock / 2; ++pair) {
        // All passes over a block take two steps for each line of an area; the line of the scales comes last.
        const int line = (first / kChunk * (kBlock / 2) + pair + 2) / 2;
        prefetch(one, line);
        prefetch(two, line);
        const uint8_t* const v = block + pair * dim * 2;
        const __m256i low = load_value_codes(v, first, dim - first);
        const __m256i high = load_value_codes(v, first + 8, dim - first - 8);
        for (int r = 0; r < R; ++r) {
          int32_t word;
          __builtin_memcpy(&word, weights + r * kAttentionPartition + b * kBlock + pair * 2, 4);
          const __m256i weight = _mm256_set1_epi32(word);
          acc[r][0] = _mm256_add_epi32(acc[r][0], _mm256_madd_epi16(low, weight));
          acc[r][1] = _mm256_add_epi32(acc[r][1], _mm256_madd_epi16(high, weight));
        }
      }
    }
    for (int r = 0; r < R; ++r) {
      float* const values = tile.values + (row + r) * tile.value_stride + first;
      const __m256 step = _mm256_set1_ps(steps[r]);
      _mm256_storeu_ps(values, _mm256_mul_ps(_mm256_cvtepi32_ps(acc[r][0]), step));
      _mm256_storeu_ps(values + 8, _mm256_mul_ps(_mm256_cvtepi32_ps(acc[r][1]), step));
    }
  }
}

using CodeValueFunction = void (*)(const AttentionTile&, int, const BlockRange&, const float (&)[kRows]);
constexpr ScoreFunction kScoreInt8[kRows] = {score_int8<1>, score_int8<2>, score_int8<3>, score_int8<4>};
constexpr CodeValueFunction kSumValuesInt8[kRows] = {sum_values_int8<1>, sum_values_int8<2>,
                                                     sum_values_int8<3>, sum_values_int8<4>};

// Rows [begin, end) are those with tokens.
struct RowRange {
  int begin, end;
};

// Later tokens begin and end later, so the rows without tokens are at the two ends.
PAGODA_INLINE RowRange start_rows(AttentionTile& tile) {
  RowRange rows = {0, tile.rows};
  while (rows.begin < rows.end && tile.begin[rows.begin] == tile.end[rows.begin]) ++rows.begin;
  while (rows.begin < rows.end && tile.begin[rows.end - 1] == tile.end[rows.end - 1]) --rows.end;
  for (int r = 0; r < tile.rows; ++r) tile.max[r] = -__builtin_inff();
  return rows;
}

void attend_int8(AttentionTile& tile) {
  const auto [first, last] = start_rows(tile);
  for (int row = first; row < last; row += kRows) {
    const int end = last - row < kRows ? last : row + kRows;
    const BlockRange blocks = {tile.begin[row] / kBlock, (tile.end[end - 1] + kBlock - 1) / kBlock};
    for (int b = blocks.begin; b < blocks.end; ++b) kScoreInt8[end - row - 1](tile, row, b);
    float steps[kRows] = {};
    for (int r = row; r < end; ++r) {
      soften(tile, r);
      steps[r - row] = round_weights(tile, r, blocks);
    }
    kSumValuesInt8[end - row - 1](tile, row, blocks, steps);
  }
}

// Bodies of 8 values; the rest of a row is padded with zeros.
PAGODA_INLINE __m256 load_floats(const float* x, int64_t left) {
  return _mm256_maskload_ps(x, lanes(left));
}

float quantize(const float* x, int64_t size, float limit, int16_t* codes) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  __m256i largest = _mm256_setzero_si256();  // as bits: NaN is above infinity, that above all numbers
  for (int64_t i = 0; i < size; i += 8) {
    const __m256i bits = _mm256_castps_si256(load_floats(x + i, size - i));
    largest = _mm256_max_epi32(largest, _mm256_and_si256(bits, magnitude));
  }
  const int32_t bits = largest_lane(largest);
  float max;
  __builtin_memcpy(&max, &bits, 4);
  const bool finite = bits < 0x7f800000;
  const float factor = finite && max >= 0x1p-100f ? limit / max : 0;
  for (int64_t i = 0; i < size; i += 8) {
    __m256i wide = _mm256_setzero_si256();
    if (factor != 0)
      wide = _mm256_cvtps_epi32(_mm256_mul_ps(load_floats(x + i, size - i), _mm256_set1_ps(factor)));
    alignas(16) int16_t eight[8];
    _mm_store_si128(reinterpret_cast<__m128i*>(eight),
                    _mm_packs_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1)));
    __builtin_memcpy(codes + i, eight, static_cast<size_t>(size - i < 8 ? size - i : 8) * 2);
  }
  return !finite ? __builtin_nanf("") : factor == 0 ? 0 : max / limit;
}

void round_f16(const float* x, int64_t size, uint16_t* out) {
  for (int64_t i = 0; i < size; i += 8) {
    alignas(16) uint16_t eight[8];
    _mm_store_si128(reinterpret_cast<__m128i*>(eight),
                    _mm256_cvtps_ph(load_floats(x + i, size - i), _MM_FROUND_TO_NEAREST_INT));
    __builtin_memcpy(out + i, eight, static_cast<size_t>(size - i < 8 ? size - i : 8) * 2);
  }
}

template <Kv kKv>
void attend(AttentionTile& tile) {
  const auto [first, last] = start_rows(tile);
  for (int row = first; row < last; row += kRows) {
    const int end = last - row < kRows ? last : row + kRows;
    for (int b = tile.begin[row] / kBlock; b * kBlock < tile.end[end - 1]; ++b) {
      kScore<kKv>[end - row - 1](tile, row, b);
    }
    for (int r = row; r < end; ++r) soften(tile, r);
    kSumValues<kKv>[end - row - 1](tile, row);
  }
}

void merge(float* acc, float a, const float* part, float b, int64_t size) {
  const __m256 va = _mm256_set1_ps(a), vb = _mm256_set1_ps(b);
  for (int64_t i = 0; i < size; i += 8) {  // size is a multiple of 32: padded value rows
    const __m256 kept = _mm256_mul_ps(_mm256_loadu_ps(acc + i), va);
    _mm256_storeu_ps(acc + i, _mm256_add_ps(kept, _mm256_mul_ps(_mm256_loadu_ps(part + i), vb)));
  }
}

void scale(const float* x, float factor, int64_t size, float* y) {
  const __m256 f = _mm256_set1_ps(factor);
  for (int64_t i = 0; i < size; i += 8) {
    const __m256i mask = lanes(size - i);
    _mm256_maskstore_ps(y + i, mask, _mm256_mul_ps(_mm256_maskload_ps(x + i, mask), f));
  }
}

}  // namespace

const AttentionBody attention_body = {
    attend<Kv::kF32>, attend<Kv::kF16>, attend<Kv::kBf16>, attend_int8, quantize, round_f16, merge, scale};

}  // namespace pagoda::kernels::avx2
