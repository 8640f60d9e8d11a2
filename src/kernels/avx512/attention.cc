// Attention of up to 8 query rows over one partition. A K vector is one pair of dimensions (bf16) or one
// dimension (f32) of 16 tokens and is shared by all rows; a V vector is 32 dimensions of a token (bf16: of
// two, interleaved).
#include <immintrin.h>

#include "kernels/avx512/exp.h"
#include "kernels/bodies.h"

#define PAGODA_INLINE static inline __attribute__((always_inline))

namespace pagoda::kernels::avx512 {
namespace {

constexpr int kBlock = kAttentionBlockTokens;
constexpr int kChunk = 32;  // dimensions of V in one pass: two accumulators a row

PAGODA_INLINE __m512bh broadcast_pair(const uint16_t* at) {
  int32_t word;
  __builtin_memcpy(&word, at, 4);
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(word));
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
template <bool kBf16, int R, int B>
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
  const int steps = kBf16 ? dim / 2 : dim;
  for (int d = 0; d < steps; ++d) {
    __m512 key[B];
    for (int i = 0; i < B; ++i) {
      key[i] = _mm512_loadu_ps(k[i] + d * 64);
      prefetch(first[i], d);
      prefetch(second[i], d);
    }
    for (int r = 0; r < R; ++r) {
      if constexpr (kBf16) {
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

template <bool kBf16, int R>
void score(AttentionTile& tile, int first_block, int end_block) {
  constexpr int kTogether = R <= 2 ? 4 : 2;
  int b = first_block;
  for (; b + kTogether <= end_block; b += kTogether) score_blocks<kBf16, R, kTogether>(tile, b);
  for (; b < end_block; ++b) score_blocks<kBf16, R, 1>(tile, b);
}

// Turns a row's scores into weights exp(s - max), which are 0 for tokens of its boundary blocks outside its
// range.
template <bool kBf16>
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
    if constexpr (kBf16) {
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

// Adds the tokens from t on that one step covers (bf16: two, f32: one). kRagged: rows take only what is
// theirs, whatever the other tokens hold. Their own weights are 0 beside their range in a block, other
// weights are not looked at.
template <bool kBf16, bool kRagged, int R>
PAGODA_INLINE void add_step(const AttentionTile& tile, int row, int t, const TokenRange& range, int first_dim,
                            __m512 (&acc)[R][2]) {
  if constexpr (kBf16) {
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
    const auto* const v =
        reinterpret_cast<const float*>(tile.v_blocks[t / kBlock]) + t % kBlock * dim + first_dim;
    const __m512 low = _mm512_maskz_loadu_ps(lanes16(dim - first_dim), v);
    const __m512 high = _mm512_maskz_loadu_ps(lanes16(dim - first_dim - 16), v + 16);
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
template <bool kBf16, bool kRagged, int R>
PAGODA_INLINE void add_steps(const AttentionTile& tile, int row, int begin, int end, const TokenRange& range,
                             int first_dim, __m512 (&acc)[R][2]) {
  if (begin >= end) return;
  constexpr int kStep = kBf16 ? 2 : 1, kSteps = kBlock / kStep;
  for (int t = begin / kStep * kStep; t < end;) {
    const int b = t / kBlock, block_end = (b + 1) * kBlock < end ? (b + 1) * kBlock : end;
    const uint8_t* const one =
        tile.beside_values[0][b] != nullptr ? tile.beside_values[0][b] : tile.v_blocks[b];
    const uint8_t* const two =
        tile.beside_values[1][b] != nullptr ? tile.beside_values[1][b] : tile.v_blocks[b];
    // The passes over a block have half as many steps as its area has lines.
    int line = (first_dim / kChunk * kSteps + t % kBlock / kStep) * 2;
    for (; t < block_end; t += kStep, line += 2) {
      prefetch(one, line);
      prefetch(one, line + 1);
      prefetch(two, line);
      prefetch(two, line + 1);
      add_step<kBf16, kRagged, R>(tile, row, t, range, first_dim, acc);
    }
  }
}

// Stores 32 dimensions of a row; pairs leave them in the lane order of load_pair().
template <bool kBf16>
PAGODA_INLINE void store_values(float* values, __m512 low, __m512 high) {
  if (kBf16) {
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
template <bool kBf16, int R>
void sum_values(const AttentionTile& tile, int row) {
  const TokenRange range = token_range(tile, row, R, kBf16);
  for (int first_dim = 0; first_dim < tile.head_dim; first_dim += kChunk) {
    __m512 acc[R][2];
    for (int r = 0; r < R; ++r) acc[r][0] = acc[r][1] = _mm512_setzero_ps();
    add_steps<kBf16, true, R>(tile, row, range.lowest, range.common_begin, range, first_dim, acc);
    add_steps<kBf16, false, R>(tile, row, range.common_begin, range.common_end, range, first_dim, acc);
    add_steps<kBf16, true, R>(tile, row, range.common_end, range.highest, range, first_dim, acc);
    for (int r = 0; r < R; ++r) {
      store_values<kBf16>(tile.values + (row + r) * tile.value_stride + first_dim, acc[r][0], acc[r][1]);
    }
  }
}

using ScoreFunction = void (*)(AttentionTile&, int, int);
using ValueFunction = void (*)(const AttentionTile&, int);

template <bool kBf16>
constexpr ScoreFunction kScore[kAttentionRows] = {score<kBf16, 1>, score<kBf16, 2>, score<kBf16, 3>,
                                                  score<kBf16, 4>, score<kBf16, 5>, score<kBf16, 6>,
                                                  score<kBf16, 7>, score<kBf16, 8>};
template <bool kBf16>
constexpr ValueFunction kSumValues[kAttentionRows] = {
    sum_values<kBf16, 1>, sum_values<kBf16, 2>, sum_values<kBf16, 3>, sum_values<kBf16, 4>,
    sum_values<kBf16, 5>, sum_values<kBf16, 6>, sum_values<kBf16, 7>, sum_values<kBf16, 8>};

template <bool kBf16>
void attend(AttentionTile& tile) {
  // Later tokens begin and end later, so the rows without tokens are at the two ends.
  int first = 0, last = tile.rows;
  while (first < last && tile.begin[first] == tile.end[first]) ++first;
  while (first < last && tile.begin[last - 1] == tile.end[last - 1]) --last;
  for (int r = 0; r < tile.rows; ++r) tile.max[r] = -__builtin_inff();
  if (first == last) return;
  const int end_block = (tile.end[last - 1] + kBlock - 1) / kBlock;
  kScore<kBf16>[tile.rows - 1](tile, tile.begin[first] / kBlock, end_block);
  for (int r = first; r < last; ++r) soften<kBf16>(tile, r);
  kSumValues<kBf16>[last - first - 1](tile, first);
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

const AttentionBody attention_body = {attend<false>, attend<true>, merge, scale};

}  // namespace pagoda::kernels::avx512
