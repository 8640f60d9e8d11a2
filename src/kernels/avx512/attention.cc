// Attention of up to 8 query rows over one partition. A K vector is one pair of dimensions (bf16, int8) or
// one dimension (f32, f16) of 16 tokens and is shared by all rows; a V vector is 32 dimensions of a token
// (bf16 and int8: of two, interleaved). f16 is widened to f32.
#include <immintrin.h>

#include "kernels/avx512/exp.h"
#include "kernels/bodies.h"

#define PAGODA_INLINE static inline __attribute__((always_inline))

namespace pagoda::kernels::avx512 {
namespace {

constexpr int kBlock = kAttentionBlockTokens;
constexpr int kChunk = 32;  // dimensions of V in one pass: two accumulators a row

enum class Kv { kF32, kF16, kBf16 };

PAGODA_INLINE __m512i broadcast_word(const void* at) {
  int32_t word;
  __builtin_memcpy(&word, at, 4);
  return _mm512_set1_epi32(word);
}
PAGODA_INLINE __m512bh broadcast_pair(const uint16_t* at) {
  return reinterpret_cast<__m512bh>(broadcast_word(at));
}

PAGODA_INLINE __mmask32 lanes32(int left) {
  return left >= 32 ? 0xffffffffu : (1u << left) - 1;
}
PAGODA_INLINE __mmask16 lanes16(int left) {
  return static_cast<__mmask16>(left >= 16 ? 0xffff : left <= 0 ? 0 : (1 << left) - 1);
}

PAGODA_INLINE void prefetch(const uint8_t* at, int line) {
  _mm_prefetch(reinterpret_cast<const char*>(at) + line * 64, _MM_HINT_T1);
}

// Scores of the tokens of B blocks from block b on. Each query value is broadcast for all of them: with one
// block the broadcasts, and with few rows the latency of the sums, would take longer than the products.
template <Kv kKv, int R, int B>
PAGODA_INLINE void score_blocks(AttentionTile& tile, int b) {
  const int dim = tile.head_dim;
  const uint8_t *k[B], *first[B], *second[B];
  __m512 acc[R][B];
  for (int i = 0; i < B; ++i) {
    k[i] = tile.k_blocks[b + i];
    // A null area is replaced by the block itself: a prefetch of what is there costs less than a branch.
    first[i] = tile.beside_scores[0][b + i] != nullptr ? tile.beside_scores[0][b + i] : k[i];
    second[i] = tile.beside_scores[1][b + i] != nullptr ? tile.beside_scores[1][b + i] : k[i];
    for (int r = 0; r < R; ++r) acc[r][i] = _mm512_setzero_ps();
  }
  const int steps = kKv == Kv::kBf16 ? dim / 2 : dim;
  for (int d = 0; d < steps; ++d) {
    __m512 key[B];
    for (int i = 0; i < B; ++i) {
      if constexpr (kKv == Kv::kF16) {
        key[i] = _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(k[i] + d * 32)));
        if (d % 2 != 0) continue;  // half a line
        prefetch(first[i], d / 2);
        prefetch(second[i], d / 2);
      } else {
        key[i] = _mm512_loadu_ps(k[i] + d * 64);
        prefetch(first[i], d);
        prefetch(second[i], d);
      }
    }
    for (int r = 0; r < R; ++r) {
      if constexpr (kKv == Kv::kBf16) {
        const __m512bh pair = broadcast_pair(reinterpret_cast<const uint16_t*>(tile.q) + r * dim + d * 2);
        for (int i = 0; i < B; ++i)
          acc[r][i] = _mm512_dpbf16_ps(acc[r][i], reinterpret_cast<__m512bh>(key[i]), pair);
      } else {
        const __m512 value = _mm512_set1_ps(reinterpret_cast<const float*>(tile.q)[r * dim + d]);
        for (int i = 0; i < B; ++i) acc[r][i] = _mm512_fmadd_ps(key[i], value, acc[r][i]);
      }
    }
  }
  const __m512 scale = _mm512_set1_ps(tile.scale);
  for (int r = 0; r < R; ++r) {
    for (int i = 0; i < B; ++i) {
      _mm512_storeu_ps(tile.scores + r * kAttentionPartition + (b + i) * kBlock,
                       _mm512_mul_ps(acc[r][i], scale));
    }
  }
}

template <Kv kKv, int R>
void score(AttentionTile& tile, int first_block, int end_block) {
  constexpr int kTogether = R <= 2 ? 4 : 2;
  int b = first_block;
  for (; b + kTogether <= end_block; b += kTogether) score_blocks<kKv, R, kTogether>(tile, b);
  for (; b < end_block; ++b) score_blocks<kKv, R, 1>(tile, b);
}

// Turns a row's scores into weights exp(s - max), which are 0 for tokens of its boundary blocks outside its
// range.
template <Kv kKv>
void soften(AttentionTile& tile, int row) {
  const int begin = tile.begin[row], end = tile.end[row];
  const __m512 none = _mm512_set1_ps(-__builtin_inff());
  const __m512 cap = _mm512_set1_ps(tile.softcap), inverse_cap = _mm512_set1_ps(1.0f / tile.softcap);
  float* const scores = tile.scores + row * kAttentionPartition;
  __m512 max = none;
  for (int t = begin / kBlock * kBlock; t < end; t += kBlock) {
    __m512 s = _mm512_loadu_ps(scores + t);
    if (tile.softcap != 0) s = _mm512_mul_ps(cap, tanh_ps(_mm512_mul_ps(s, inverse_cap)));
    if (t < begin || t + kBlock > end) {
      const __mmask16 inside = lanes16(end - t) & static_cast<__mmask16>(~lanes16(begin - t));
      s = _mm512_mask_blend_ps(inside, none, s);
      _mm512_storeu_ps(scores + t, s);
    } else if (tile.softcap != 0) {
      _mm512_storeu_ps(scores + t, s);
    }
    max = _mm512_max_ps(s, max);
  }
  const float row_max = _mm512_reduce_max_ps(max);
  tile.max[row] = row_max;
  const __m512 reference = _mm512_set1_ps(row_max == -__builtin_inff() ? 0.0f : row_max);
  __m512 sum = _mm512_setzero_ps();
  for (int t = begin / kBlock * kBlock; t < end; t += kBlock) {
    const __m512 weight = exp_ps(_mm512_sub_ps(_mm512_loadu_ps(scores + t), reference));
    sum = _mm512_add_ps(sum, weight);
    if constexpr (kKv == Kv::kBf16) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(tile.weights + row * kAttentionPartition + t),
                          reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(weight)));
    } else {
      _mm512_storeu_ps(scores + t, weight);
    }
  }
  tile.sum[row] = _mm512_reduce_add_ps(sum);
}

// The tokens of R rows: [common_begin, common_end) belongs to all of them, the rest of [lowest, highest) to
// some. For bf16 the common range is cut at even tokens (unless all rows have the same range), so that the
// pairs of a row are the same as if it came alone.
struct TokenRange {
  int lowest, highest, common_begin, common_end;
};

PAGODA_INLINE TokenRange token_range(const AttentionTile& tile, int row, int rows, bool pairs) {
  TokenRange range = {kAttentionPartition, 0, 0, kAttentionPartition};
  for (int r = row; r < row + rows; ++r) {
    const int begin = tile.begin[r], end = tile.end[r];
    range.lowest = begin < range.lowest ? begin : range.lowest;
    range.highest = end > range.highest ? end : range.highest;
    range.common_begin = begin > range.common_begin ? begin : range.common_begin;
    range.common_end = end < range.common_end ? end : range.common_end;
  }
  const bool same = range.common_begin == range.lowest && range.common_end == range.highest;
  if (pairs && !same) {
    range.common_begin = (range.common_begin + 1) & ~1;
    range.common_end &= ~1;
  }
  if (range.common_begin >= range.common_end) range.common_begin = range.common_end = range.highest;
  return range;
}

// Values of the pair of tokens (t, t + 1), t even, interleaved; a token outside [begin, end) is not loaded
// but 0. Within each 128-bit lane `low` has dimensions 0..3 of both tokens, `high` 4..7; store_values()
// undoes that.
PAGODA_INLINE void load_pair(const AttentionTile& tile, int t, int begin, int end, int first_dim,
                             __m512i& low, __m512i& high) {
  const int dim = tile.head_dim;
  const __mmask32 mask = lanes32(dim - first_dim);
  const auto* const v =
      reinterpret_cast<const uint16_t*>(tile.v_blocks[t / kBlock]) + t % kBlock * dim + first_dim;
  const __m512i a = _mm512_maskz_loadu_epi16(t >= begin ? mask : 0, v);
  const __m512i b = _mm512_maskz_loadu_epi16(t + 1 < end ? mask : 0, v + dim);
  low = _mm512_unpacklo_epi16(a, b);
  high = _mm512_unpackhi_epi16(a, b);
}

// 16 values of a block as floats, 0 from `left` on.
template <Kv kKv>
PAGODA_INLINE __m512 load_values(const uint8_t* v, int at, int left) {
  if constexpr (kKv == Kv::kF16) {
    return _mm512_cvtph_ps(
        _mm256_maskz_loadu_epi16(lanes16(left), reinterpret_cast<const uint16_t*>(v) + at));
  }
  return _mm512_maskz_loadu_ps(lanes16(left), reinterpret_cast<const float*>(v) + at);
}

// Adds the tokens from t on that one step covers (bf16: two, else one). kRagged: rows take only what is
// theirs, whatever the other tokens hold. Their own weights are 0 beside their range in a block, other
// weights are not looked at.
template <Kv kKv, bool kRagged, int R>
PAGODA_INLINE void add_step(const AttentionTile& tile, int row, int t, const TokenRange& range, int first_dim,
                            __m512 (&acc)[R][2]) {
  if constexpr (kKv == Kv::kBf16) {
    __m512i low, high;
    load_pair(tile, t, range.lowest, range.highest, first_dim, low, high);
    const uint16_t* const weights = tile.weights + row * kAttentionPartition + t;
    for (int r = 0; r < R; ++r) {
      const __m512bh pair = broadcast_pair(weights + r * kAttentionPartition);
      if constexpr (kRagged) {
        const int begin = tile.begin[row + r], end = tile.end[row + r];
        const __mmask32 own =
            (t >= begin && t < end ? 0x55555555u : 0) | (t + 1 >= begin && t + 1 < end ? 0xaaaaaaaau : 0);
        const auto keep = static_cast<__mmask16>(own != 0 ? 0xffff : 0);
        const auto own_low = reinterpret_cast<__m512bh>(_mm512_maskz_mov_epi16(own, low));
        const auto own_high = reinterpret_cast<__m512bh>(_mm512_maskz_mov_epi16(own, high));
        acc[r][0] = _mm512_mask_dpbf16_ps(acc[r][0], keep, own_low, pair);
        acc[r][1] = _mm512_mask_dpbf16_ps(acc[r][1], keep, own_high, pair);
      } else {
        acc[r][0] = _mm512_dpbf16_ps(acc[r][0], reinterpret_cast<__m512bh>(low), pair);
        acc[r][1] = _mm512_dpbf16_ps(acc[r][1], reinterpret_cast<__m512bh>(high), pair);
      }
    }
  } else {
    const int dim = tile.head_dim;
    const int at = t % kBlock * dim + first_dim;
    const __m512 low = load_values<kKv>(tile.v_blocks[t / kBlock], at, dim - first_dim);
    const __m512 high = load_values<kKv>(tile.v_blocks[t / kBlock], at + 16, dim - first_dim - 16);
    const float* const weights = tile.scores + row * kAttentionPartition + t;
    for (int r = 0; r < R; ++r) {
      const bool own = !kRagged || (t >= tile.begin[row + r] && t < tile.end[row + r]);
      const auto keep = static_cast<__mmask16>(own ? 0xffff : 0);
      const __m512 weight = _mm512_set1_ps(weights[r * kAttentionPartition]);
      acc[r][0] = _mm512_mask3_fmadd_ps(low, weight, acc[r][0], keep);
      acc[r][1] = _mm512_mask3_fmadd_ps(high, weight, acc[r][1], keep);
    }
  }
}

// Steps over tokens [begin, end), with the prefetches that go beside them.
template <Kv kKv, bool kRagged, int R>
PAGODA_INLINE void add_steps(const AttentionTile& tile, int row, int begin, int end, const TokenRange& range,
                             int first_dim, __m512 (&acc)[R][2]) {
  if (begin >= end) return;
  constexpr int kStep = kKv == Kv::kBf16 ? 2 : 1, kSteps = kBlock / kStep;
  for (int t = begin / kStep * kStep; t < end;) {
    const int b = t / kBlock, block_end = (b + 1) * kBlock < end ? (b + 1) * kBlock : end;
    const uint8_t* const one =
        tile.beside_values[0][b] != nullptr ? tile.beside_values[0][b] : tile.v_blocks[b];
    const uint8_t* const two =
        tile.beside_values[1][b] != nullptr ? tile.beside_values[1][b] : tile.v_blocks[b];
    // The passes over a block have half as many steps as its area has lines; f16: as many.
    constexpr int kLines = kKv == Kv::kF16 ? 1 : 2;
    int line = (first_dim / kChunk * kSteps + t % kBlock / kStep) * kLines;
    for (; t < block_end; t += kStep, line += kLines) {
      for (int i = 0; i < kLines; ++i) {
        prefetch(one, line + i);
        prefetch(two, line + i);
      }
      add_step<kKv, kRagged, R>(tile, row, t, range, first_dim, acc);
    }
  }
}

// Stores 32 dimensions of a row; pairs leave them in the lane order of load_pair().
template <Kv kKv>
PAGODA_INLINE void store_values(float* values, __m512 low, __m512 high) {
  if (kKv == Kv::kBf16) {
    const __m512i first = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    const __m512i second = _mm512_setr_epi32(8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
    _mm512_storeu_ps(values, _mm512_permutex2var_ps(low, first, high));
    _mm512_storeu_ps(values + 16, _mm512_permutex2var_ps(low, second, high));
  } else {
    _mm512_storeu_ps(values, low);
    _mm512_storeu_ps(values + 16, high);
  }
}

// The weighted values of rows [row, row + R), each of which has tokens.
template <Kv kKv, int R>
void sum_values(const AttentionTile& tile, int row) {
  const TokenRange range = token_range(tile, row, R, kKv == Kv::kBf16);
  for (int first_dim = 0; first_dim < tile.head_dim; first_dim += kChunk) {
    __m512 acc[R][2];
    for (int r = 0; r < R; ++r) acc[r][0] = acc[r][1] = _mm512_setzero_ps();
    add_steps<kKv, true, R>(tile, row, range.lowest, range.common_begin, range, first_dim, acc);
    add_steps<kKv, false, R>(tile, row, range.common_begin, range.common_end, range, first_dim, acc);
    add_steps<kKv, true, R>(tile, row, range.common_end, range.highest, range, first_dim, acc);
    for (int r = 0; r < R; ++r) {
      store_values<kKv>(tile.values + (row + r) * tile.value_stride + first_dim, acc[r][0], acc[r][1]);
    }
  }
}

using ScoreFunction = void (*)(AttentionTile&, int, int);
using ValueFunction = void (*)(const AttentionTile&, int);

template <Kv kKv>
constexpr ScoreFunction kScore[kAttentionRows] = {score<kKv, 1>, score<kKv, 2>, score<kKv, 3>, score<kKv, 4>,
                                                  score<kKv, 5>, score<kKv, 6>, score<kKv, 7>, score<kKv, 8>};
template <Kv kKv>
constexpr ValueFunction kSumValues[kAttentionRows] = {
    sum_values<kKv, 1>, sum_values<kKv, 2>, sum_values<kKv, 3>, sum_values<kKv, 4>,
    sum_values<kKv, 5>, sum_values<kKv, 6>, sum_values<kKv, 7>, sum_values<kKv, 8>};

PAGODA_INLINE const float* scales_of(const AttentionTile& tile, const uint8_t* block) {
  return reinterpret_cast<const float*>(block + tile.head_dim * kBlock);
}

PAGODA_INLINE __m512i widen_codes(__m256i codes) {
  return _mm512_cvtepi8_epi16(codes);
}

// Scores from int8 codes; 32 bytes of a block are a pair of dimensions.
template <int R, int B>
PAGODA_INLINE void score_blocks_int8(AttentionTile& tile, int b) {
  const int dim = tile.head_dim;
  const auto* const q = reinterpret_cast<const int16_t*>(tile.q);
  const uint8_t *k[B], *first[B], *second[B];
  __m512i acc[R][B];
  for (int i = 0; i < B; ++i) {
    k[i] = tile.k_blocks[b + i];
    first[i] = tile.beside_scores[0][b + i] != nullptr ? tile.beside_scores[0][b + i] : k[i];
    second[i] = tile.beside_scores[1][b + i] != nullptr ? tile.beside_scores[1][b + i] : k[i];
    prefetch(first[i], dim / 4);  // the scales
    prefetch(second[i], dim / 4);
    for (int r = 0; r < R; ++r) acc[r][i] = _mm512_setzero_si512();
  }
  for (int d = 0; d < dim / 2; ++d) {
    __m512i key[B];
    for (int i = 0; i < B; ++i) {
      key[i] = widen_codes(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(k[i] + d * 32)));
      if (d % 2 != 0) continue;  // half a line
      prefetch(first[i], d / 2);
      prefetch(second[i], d / 2);
    }
    for (int r = 0; r < R; ++r) {
      const __m512i pair = broadcast_word(q + r * dim + d * 2);
      for (int i = 0; i < B; ++i) acc[r][i] = _mm512_dpwssd_epi32(acc[r][i], key[i], pair);
    }
  }
  for (int i = 0; i < B; ++i) {
    const __m512 scales = _mm512_loadu_ps(scales_of(tile, k[i]));
    for (int r = 0; r < R; ++r) {
      const __m512 scale = _mm512_mul_ps(_mm512_set1_ps(tile.q_scale[r] * tile.scale), scales);
      _mm512_storeu_ps(tile.scores + r * kAttentionPartition + (b + i) * kBlock,
                       _mm512_mul_ps(_mm512_cvtepi32_ps(acc[r][i]), scale));
    }
  }
}

template <int R>
void score_int8(AttentionTile& tile, int first_block, int end_block) {
  constexpr int kTogether = R <= 2 ? 4 : 2;
  int b = first_block;
  for (; b + kTogether <= end_block; b += kTogether) score_blocks_int8<R, kTogether>(tile, b);
  for (; b < end_block; ++b) score_blocks_int8<R, 1>(tile, b);
}

// Turns a row's weights times the values' scales into codes, which are 0 outside its range; returns what one
// of them stands for.
float round_weights(AttentionTile& tile, int row, const BlockRange& blocks) {
  const int begin = tile.begin[row], end = tile.end[row];
  float* const weights = tile.scores + row * kAttentionPartition;
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  __m512i largest =
      _mm512_setzero_si512();  // the bits of floats from 0 on are in order, NaN above all others
  for (int t = begin / kBlock * kBlock; t < end; t += kBlock) {
    const __mmask16 inside = lanes16(end - t) & static_cast<__mmask16>(~lanes16(begin - t));
    const __m512 scales = _mm512_loadu_ps(scales_of(tile, tile.v_blocks[t / kBlock]));
    const __m512 weight = _mm512_maskz_mul_ps(inside, _mm512_loadu_ps(weights + t), scales);
    const __m512i bits = _mm512_and_si512(_mm512_castps_si512(weight), magnitude);
    _mm512_storeu_si512(weights + t, bits);
    largest = _mm512_max_epi32(largest, bits);
  }
  const int32_t bits = _mm512_reduce_max_epi32(largest);
  float max;
  __builtin_memcpy(&max, &bits, 4);
  const __m512 factor = _mm512_set1_ps(max >= 0x1p-100f ? 32767 / max : 0);
  auto* const codes = reinterpret_cast<int16_t*>(tile.weights) + row * kAttentionPartition;
  for (int t = blocks.begin * kBlock; t < blocks.end * kBlock; t += kBlock) {
    __m512i wide = _mm512_setzero_si512();
    if (t + kBlock > begin && t < end)
      wide = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(weights + t), factor));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes + t), _mm512_cvtepi32_epi16(wide));
  }
  return max < 0x1p-100f ? 0 : max / 32767;
}

// The weighted values of rows [row, row + R), whose weights' codes stand for `steps`. A code outside a row's
// range meets a weight of 0. V vectors have 16 dimensions; more of them at once where there are few rows.
template <int R>
void sum_values_int8(const AttentionTile& tile, int row, const BlockRange& blocks, const float* steps) {
  constexpr int kVectors = R <= 4 ? 4 : 2, kDims = 16 * kVectors;
  const int dim = tile.head_dim;
  const auto* const weights = reinterpret_cast<const int16_t*>(tile.weights) + row * kAttentionPartition;
  for (int first = 0; first < dim; first += kDims) {
    __m512i acc[R][kVectors];
    __mmask32 mask[kVectors];
    for (int i = 0; i < kVectors; ++i) {
      const int left = dim - first - 16 * i;
      mask[i] = lanes32(left > 0 ? 2 * left : 0);
      for (int r = 0; r < R; ++r) acc[r][i] = _mm512_setzero_si512();
    }
    for (int b = blocks.begin; b < blocks.end; ++b) {
      const uint8_t* const block = tile.v_blocks[b];
      const uint8_t* const one = tile.beside_values[0][b] != nullptr ? tile.beside_values[0][b] : block;
      const uint8_t* const two = tile.beside_values[1][b] != nullptr ? tile.beside_values[1][b] : block;
      for (int pair = 0; pair < kBlock / 2; ++pair) {
        const uint8_t* const v = block + pair * dim * 2 + first * 2;
        __m512i value[kVectors];
        for (int i = 0; i < kVectors; ++i)
          value[i] = widen_codes(_mm256_maskz_loadu_epi8(mask[i], v + 32 * i));
        // The same place in the next blocks, and at last the line of the scales.
        const int line = (pair * dim * 2 + first * 2) / 64 + 1;
        for (int i = 0; i < kVectors / 2; ++i) {
          prefetch(one, line + i);
          prefetch(two, line + i);
        }
        for (int r = 0; r < R; ++r) {
          const __m512i weight = broadcast_word(weights + r * kAttentionPartition + b * kBlock + pair * 2);
          for (int i = 0; i < kVectors; ++i) acc[r][i] = _mm512_dpwssd_epi32(acc[r][i], value[i], weight);
        }
      }
    }
    for (int i = 0; i < kVectors; ++i) {
      if (first + 16 * i >= tile.value_stride) break;
      for (int r = 0; r < R; ++r) {
        _mm512_storeu_ps(tile.values + (row + r) * tile.value_stride + first + 16 * i,
                         _mm512_mul_ps(_mm512_cvtepi32_ps(acc[r][i]), _mm512_set1_ps(steps[r])));
      }
    }
  }
}

using CodeValueFunction = void (*)(const AttentionTile&, int, const BlockRange&, const float*);
constexpr ScoreFunction kScoreInt8[kAttentionRows] = {score_int8<1>, score_int8<2>, score_int8<3>,
                                                      score_int8<4>, score_int8<5>, score_int8<6>,
                                                      score_int8<7>, score_int8<8>};
constexpr CodeValueFunction kSumValuesInt8[kAttentionRows] = {
    sum_values_int8<1>, sum_values_int8<2>, sum_values_int8<3>, sum_values_int8<4>,
    sum_values_int8<5>, sum_values_int8<6>, sum_values_int8<7>, sum_values_int8<8>};

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
  if (first == last) return;
  const BlockRange blocks = {tile.begin[first] / kBlock, (tile.end[last - 1] + kBlock - 1) / kBlock};
  kScoreInt8[tile.rows - 1](tile, blocks.begin, blocks.end);
  float steps[kAttentionRows] = {};
  for (int r = first; r < last; ++r) {
    soften<Kv::kF32>(tile, r);
    steps[r - first] = round_weights(tile, r, blocks);
  }
  kSumValuesInt8[last - first - 1](tile, first, blocks, steps);
}

float quantize(const float* x, int64_t size, float limit, int16_t* codes) {
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  const auto load = [&](int64_t i) {
    return _mm512_maskz_loadu_ps(lanes16(static_cast<int>(size - i)), x + i);
  };
  __m512i largest = _mm512_setzero_si512();  // as bits: NaN is above infinity, that above all numbers
  for (int64_t i = 0; i < size; i += 16)
    largest = _mm512_max_epi32(largest, _mm512_and_si512(_mm512_castps_si512(load(i)), magnitude));
  const int32_t bits = _mm512_reduce_max_epi32(largest);
  float max;
  __builtin_memcpy(&max, &bits, 4);
  const bool finite = bits < 0x7f800000;
  const float factor = finite && max >= 0x1p-100f ? limit / max : 0;
  for (int64_t i = 0; i < size; i += 16) {
    __m512i wide = _mm512_setzero_si512();
    if (factor != 0) wide = _mm512_cvtps_epi32(_mm512_mul_ps(load(i), _mm512_set1_ps(factor)));
    _mm256_mask_storeu_epi16(codes + i, lanes16(static_cast<int>(size - i)), _mm512_cvtepi32_epi16(wide));
  }
  return !finite ? __builtin_nanf("") : factor == 0 ? 0 : max / limit;
}

void round_f16(const float* x, int64_t size, uint16_t* out) {
  for (int64_t i = 0; i < size; i += 16) {
    const __mmask16 mask = lanes16(static_cast<int>(size - i));
    const __m512 values = _mm512_maskz_loadu_ps(mask, x + i);
    _mm256_mask_storeu_epi16(out + i, mask, _mm512_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT));
  }
}

template <Kv kKv>
void attend(AttentionTile& tile) {
  const auto [first, last] = start_rows(tile);
  if (first == last) return;
  const int end_block = (tile.end[last - 1] + kBlock - 1) / kBlock;
  kScore<kKv>[tile.rows - 1](tile, tile.begin[first] / kBlock, end_block);
  for (int r = first; r < last; ++r) soften<kKv>(tile, r);
  kSumValues<kKv>[last - first - 1](tile, first);
}

void merge(float* acc, float a, const float* part, float b, int64_t size) {
  const __m512 va = _mm512_set1_ps(a), vb = _mm512_set1_ps(b);
  for (int64_t i = 0; i < size; i += 16) {  // size is a multiple of 32: padded value rows
    const __m512 kept = _mm512_mul_ps(_mm512_loadu_ps(acc + i), va);
    _mm512_storeu_ps(acc + i, _mm512_add_ps(kept, _mm512_mul_ps(_mm512_loadu_ps(part + i), vb)));
  }
}

void scale(const float* x, float factor, int64_t size, float* y) {
  const __m512 f = _mm512_set1_ps(factor);
  for (int64_t i = 0; i < size; i += 16) {
    const __mmask16 mask = lanes16(static_cast<int>(size - i));
    _mm512_mask_storeu_ps(y + i, mask, _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + i), f));
  }
}

}  // namespace

const AttentionBody attention_body = {
    attend<Kv::kF32>, attend<Kv::kF16>, attend<Kv::kBf16>, attend_int8, quantize, round_f16, merge, scale};

}  // namespace pagoda::kernels::avx512
