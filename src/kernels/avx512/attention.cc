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

// Scores of the 16 tokens of block b. Meanwhile V of this block and K of the next one come closer: the blocks
// of a sequence lie anywhere, so the hardware does not foresee them.
template <bool kBf16, int R>
PAGODA_INLINE void score_block(AttentionTile& tile, int b, const uint8_t* next_k) {
  const int dim = tile.head_dim;
  const uint8_t *k = tile.k_blocks[b], *v = tile.v_blocks[b];
  __m512 acc[R];
  for (int r = 0; r < R; ++r) acc[r] = _mm512_setzero_ps();
  const int steps = kBf16 ? dim / 2 : dim;
  for (int d = 0; d < steps; ++d) {
    _mm_prefetch(reinterpret_cast<const char*>(v) + d * 64, _MM_HINT_T1);
    _mm_prefetch(reinterpret_cast<const char*>(next_k) + d * 64, _MM_HINT_T0);
    if constexpr (kBf16) {
      const auto key = reinterpret_cast<__m512bh>(_mm512_loadu_si512(k + d * 64));
      const auto* const q = reinterpret_cast<const uint16_t*>(tile.q) + d * 2;
      for (int r = 0; r < R; ++r) acc[r] = _mm512_dpbf16_ps(acc[r], key, broadcast_pair(q + r * dim));
    } else {
      const __m512 key = _mm512_loadu_ps(k + d * 64);
      const auto* const q = reinterpret_cast<const float*>(tile.q) + d;
      for (int r = 0; r < R; ++r) acc[r] = _mm512_fmadd_ps(key, _mm512_set1_ps(q[r * dim]), acc[r]);
    }
  }
  const __m512 scale = _mm512_set1_ps(tile.scale);
  for (int r = 0; r < R; ++r) {
    _mm512_storeu_ps(tile.scores + r * kAttentionPartition + b * kBlock, _mm512_mul_ps(acc[r], scale));
  }
}

template <bool kBf16, int R>
void score(AttentionTile& tile, int first_block, int end_block) {
  for (int b = first_block; b < end_block; ++b) {
    score_block<kBf16, R>(tile, b, tile.k_blocks[b + 1 < end_block ? b + 1 : b]);
  }
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
    const __mmask16 inside = lanes16(end - t) & static_cast<__mmask16>(~lanes16(begin - t));
    s = _mm512_mask_blend_ps(inside, none, s);
    _mm512_storeu_ps(scores + t, s);
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

// One pair of tokens (t, t + 1), t even; a token outside [begin, end) is not loaded.
template <int R>
PAGODA_INLINE void add_pair(const AttentionTile& tile, int row, int t, int begin, int end, int first_dim,
                            __m512 (&acc)[R][2]) {
  const int dim = tile.head_dim;
  const __mmask32 mask = lanes32(dim - first_dim);
  const auto* const v =
      reinterpret_cast<const uint16_t*>(tile.v_blocks[t / kBlock]) + t % kBlock * dim + first_dim;
  const __m512i a = _mm512_maskz_loadu_epi16(t >= begin ? mask : 0, v);
  const __m512i b = _mm512_maskz_loadu_epi16(t + 1 < end ? mask : 0, v + dim);
  // Within each 128-bit lane: dimensions 0..3 of both tokens, then 4..7. restore_order() undoes it.
  const auto low = reinterpret_cast<__m512bh>(_mm512_unpacklo_epi16(a, b));
  const auto high = reinterpret_cast<__m512bh>(_mm512_unpackhi_epi16(a, b));
  const uint16_t* const weights = tile.weights + row * kAttentionPartition + t;
  for (int r = 0; r < R; ++r) {
    const __m512bh pair = broadcast_pair(weights + r * kAttentionPartition);
    acc[r][0] = _mm512_dpbf16_ps(acc[r][0], low, pair);
    acc[r][1] = _mm512_dpbf16_ps(acc[r][1], high, pair);
  }
}

template <int R>
PAGODA_INLINE void add_token(const AttentionTile& tile, int row, int t, int first_dim, __m512 (&acc)[R][2]) {
  const int dim = tile.head_dim;
  const auto* const v =
      reinterpret_cast<const float*>(tile.v_blocks[t / kBlock]) + t % kBlock * dim + first_dim;
  const __m512 low = _mm512_maskz_loadu_ps(lanes16(dim - first_dim), v);
  const __m512 high = _mm512_maskz_loadu_ps(lanes16(dim - first_dim - 16), v + 16);
  const float* const weights = tile.scores + row * kAttentionPartition + t;
  for (int r = 0; r < R; ++r) {
    const __m512 weight = _mm512_set1_ps(weights[r * kAttentionPartition]);
    acc[r][0] = _mm512_fmadd_ps(low, weight, acc[r][0]);
    acc[r][1] = _mm512_fmadd_ps(high, weight, acc[r][1]);
  }
}

// Adds the weighted values of tokens [begin, end) to rows [row, row + R).
template <bool kBf16, int R>
void add_values(const AttentionTile& tile, int row, int begin, int end) {
  for (int first_dim = 0; first_dim < tile.head_dim; first_dim += kChunk) {
    float* const values = tile.values + row * tile.value_stride + first_dim;
    __m512 acc[R][2];
    for (int r = 0; r < R; ++r) {
      acc[r][0] = _mm512_loadu_ps(values + r * tile.value_stride);
      acc[r][1] = _mm512_loadu_ps(values + r * tile.value_stride + 16);
    }
    if constexpr (kBf16) {
      for (int t = begin & ~1; t < end; t += 2) add_pair<R>(tile, row, t, begin, end, first_dim, acc);
    } else {
      for (int t = begin; t < end; ++t) add_token<R>(tile, row, t, first_dim, acc);
    }
    for (int r = 0; r < R; ++r) {
      _mm512_storeu_ps(values + r * tile.value_stride, acc[r][0]);
      _mm512_storeu_ps(values + r * tile.value_stride + 16, acc[r][1]);
    }
  }
}

// From the lane order of add_pair to ascending dimensions.
void restore_order(float* values, int64_t size) {
  const __m512i first = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
  const __m512i second = _mm512_setr_epi32(8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
  for (int64_t i = 0; i < size; i += kChunk) {
    const __m512 low = _mm512_loadu_ps(values + i), high = _mm512_loadu_ps(values + i + 16);
    _mm512_storeu_ps(values + i, _mm512_permutex2var_ps(low, first, high));
    _mm512_storeu_ps(values + i + 16, _mm512_permutex2var_ps(low, second, high));
  }
}

using ScoreFunction = void (*)(AttentionTile&, int, int);
using ValueFunction = void (*)(const AttentionTile&, int, int, int);

template <bool kBf16>
constexpr ScoreFunction kScore[kAttentionRows] = {score<kBf16, 1>, score<kBf16, 2>, score<kBf16, 3>,
                                                  score<kBf16, 4>, score<kBf16, 5>, score<kBf16, 6>,
                                                  score<kBf16, 7>, score<kBf16, 8>};
template <bool kBf16>
constexpr ValueFunction kValues[kAttentionRows] = {
    add_values<kBf16, 1>, add_values<kBf16, 2>, add_values<kBf16, 3>, add_values<kBf16, 4>,
    add_values<kBf16, 5>, add_values<kBf16, 6>, add_values<kBf16, 7>, add_values<kBf16, 8>};

// Rows [first, end) all have tokens. The tokens common to all of them are added for all rows at once, the
// ragged rest row by row. Cuts are at even tokens, so that the pairs of a row are the same as if it came
// alone.
template <bool kBf16>
void sum_values(const AttentionTile& tile, int first, int end) {
  int latest_begin = 0, earliest_end = kAttentionPartition;
  bool same = true;
  for (int r = first; r < end; ++r) {
    latest_begin = tile.begin[r] > latest_begin ? tile.begin[r] : latest_begin;
    earliest_end = tile.end[r] < earliest_end ? tile.end[r] : earliest_end;
    same = same && tile.begin[r] == tile.begin[first] && tile.end[r] == tile.end[first];
    float* const values = tile.values + r * tile.value_stride;
    for (int64_t d = 0; d < tile.value_stride; d += 16) _mm512_storeu_ps(values + d, _mm512_setzero_ps());
  }
  const int common_begin = same ? latest_begin : (latest_begin + 1) & ~1;
  const int common_end = same ? earliest_end : earliest_end & ~1;
  if (common_begin >= common_end) {
    for (int r = first; r < end; ++r) add_values<kBf16, 1>(tile, r, tile.begin[r], tile.end[r]);
  } else {
    for (int r = first; r < end; ++r) {
      if (tile.begin[r] < common_begin) add_values<kBf16, 1>(tile, r, tile.begin[r], common_begin);
    }
    kValues<kBf16>[end - first - 1](tile, first, common_begin, common_end);
    for (int r = first; r < end; ++r) {
      if (tile.end[r] > common_end) add_values<kBf16, 1>(tile, r, common_end, tile.end[r]);
    }
  }
  if (kBf16) {
    for (int r = first; r < end; ++r) restore_order(tile.values + r * tile.value_stride, tile.value_stride);
  }
}

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
  sum_values<kBf16>(tile, first, last);
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
