// Attention of up to 8 query rows over one partition, in f32 arithmetic: bf16 keys and values are widened in
// registers, and weights stay f32 (tile.weights is not used). 16 ymm hold a tile of 4 rows x 2 vectors.
#include <immintrin.h>

#include "kernels/avx2/vector.h"
#include "kernels/bodies.h"

#define PAGODA_INLINE static inline __attribute__((always_inline))

namespace pagoda::kernels::avx2 {
namespace {

constexpr int kBlock = kAttentionBlockTokens;
constexpr int kRows = 4;    // rows of one register tile
constexpr int kChunk = 16;  // dimensions of V in one pass

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

// Scores of rows [row, row + R) and the 16 tokens of block b; the odd dimension of a pair comes first.
template <bool kBf16, int R>
void score(AttentionTile& tile, int row, int b) {
  const int dim = tile.head_dim;
  const uint8_t* k = tile.k_blocks[b];
  // A null area is replaced by the block itself: a prefetch of what is there costs less than a branch.
  const uint8_t* const first = tile.beside_scores[0][b] != nullptr ? tile.beside_scores[0][b] : k;
  const uint8_t* const second = tile.beside_scores[1][b] != nullptr ? tile.beside_scores[1][b] : k;
  __m256 acc[R][2];
  for (int r = 0; r < R; ++r) acc[r][0] = acc[r][1] = _mm256_setzero_ps();
  const int steps = kBf16 ? dim / 2 : dim;
  for (int d = 0; d < steps; ++d, k += 64) {
    prefetch(first, d);
    prefetch(second, d);
    if constexpr (kBf16) {
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
      const auto* const keys = reinterpret_cast<const float*>(k);
      const __m256 low = _mm256_loadu_ps(keys), high = _mm256_loadu_ps(keys + 8);
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
template <bool kBf16>
PAGODA_INLINE __m256 load_values(const uint8_t* v, int first, int left) {
  if constexpr (kBf16) {
    alignas(16) uint16_t tail[8] = {};
    const auto* at = reinterpret_cast<const uint16_t*>(v) + first;
    if (left < 8) {
      if (left > 0) __builtin_memcpy(tail, at, static_cast<size_t>(left) * 2);
      at = tail;
    }
    const __m128i eight = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(eight), 16));
  } else {
    return _mm256_maskload_ps(reinterpret_cast<const float*>(v) + first, lanes(left));
  }
}

// Adds tokens [begin, end) to R rows. kRagged: a row takes only the tokens of its own range.
template <bool kBf16, bool kRagged, int R>
PAGODA_INLINE void add_tokens(const AttentionTile& tile, int row, int begin, int end, int first,
                              __m256 (&acc)[R][2]) {
  const int dim = tile.head_dim, row_bytes = dim * (kBf16 ? 2 : 4);
  const float* const weights = tile.scores + row * kAttentionPartition;
  for (int t = begin; t < end; ++t) {
    const int b = t / kBlock;
    const uint8_t* const v = tile.v_blocks[b] + t % kBlock * row_bytes;
    // All passes over a block together take two steps (f32: one) for each line of an area.
    const int line = (first / kChunk * kBlock + t % kBlock) * (kBf16 ? 1 : 2) / 2;
    prefetch(tile.beside_values[0][b] != nullptr ? tile.beside_values[0][b] : v, line);
    prefetch(tile.beside_values[1][b] != nullptr ? tile.beside_values[1][b] : v, line);
    const __m256 low = load_values<kBf16>(v, first, dim - first);
    const __m256 high = load_values<kBf16>(v, first + 8, dim - first - 8);
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
template <bool kBf16, int R>
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
    add_tokens<kBf16, true, R>(tile, row, lowest, common_begin, first, acc);
    add_tokens<kBf16, false, R>(tile, row, common_begin, common_end, first, acc);
    add_tokens<kBf16, true, R>(tile, row, common_end, highest, first, acc);
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

template <bool kBf16>
constexpr ScoreFunction kScore[kRows] = {score<kBf16, 1>, score<kBf16, 2>, score<kBf16, 3>, score<kBf16, 4>};
template <bool kBf16>
constexpr ValueFunction kSumValues[kRows] = {sum_values<kBf16, 1>, sum_values<kBf16, 2>, sum_values<kBf16, 3>,
                                             sum_values<kBf16, 4>};

template <bool kBf16>
void attend(AttentionTile& tile) {
  // Later tokens begin and end later, so the rows without tokens are at the two ends.
  int first = 0, last = tile.rows;
  while (first < last && tile.begin[first] == tile.end[first]) ++first;
  while (first < last && tile.begin[last - 1] == tile.end[last - 1]) --last;
  for (int r = 0; r < tile.rows; ++r) tile.max[r] = -__builtin_inff();
  for (int row = first; row < last; row += kRows) {
    const int end = last - row < kRows ? last : row + kRows;
    for (int b = tile.begin[row] / kBlock; b * kBlock < tile.end[end - 1]; ++b) {
      kScore<kBf16>[end - row - 1](tile, row, b);
    }
    for (int r = row; r < end; ++r) soften(tile, r);
    kSumValues<kBf16>[end - row - 1](tile, row);
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

const AttentionBody attention_body = {attend<false>, attend<true>, merge, scale};

}  // namespace pagoda::kernels::avx2
