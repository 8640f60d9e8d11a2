#include <cmath>
#include <cstring>

#include "kernels/bodies.h"

namespace pagoda::kernels::scalar {
namespace {

constexpr int kBlock = kAttentionBlockTokens;

float bits_to_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

float bf16_to_float(uint16_t bits) {
  return bits_to_float(uint32_t{bits} << 16);
}

uint16_t float_to_bf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// q . k of one token; the bf16 cache keeps pairs of dimensions together and takes the odd one first.
template <bool kBf16>
float dot(const AttentionTile& tile, int row, int token) {
  const int dim = tile.head_dim, slot = token % kBlock;
  const uint8_t* const block = tile.k_blocks[token / kBlock];
  float sum = 0;
  if constexpr (kBf16) {
    // Pairs are loaded as one word: gcc 12.2 -O3 miscompiles this loop when it vectorises two loads of 16
    // bits.
    const uint8_t* const q = tile.q + row * dim * 2;
    for (int d = 0; d < dim; d += 2) {
      uint32_t q_pair, k_pair;
      std::memcpy(&q_pair, q + d * 2, 4);
      std::memcpy(&k_pair, block + d * kBlock * 2 + slot * 4, 4);
      sum += bits_to_float(q_pair & 0xffff0000) * bits_to_float(k_pair & 0xffff0000);
      sum += bits_to_float(q_pair << 16) * bits_to_float(k_pair << 16);
    }
  } else {
    const auto* const q = reinterpret_cast<const float*>(tile.q) + row * dim;
    const auto* const k = reinterpret_cast<const float*>(block);
    for (int d = 0; d < dim; ++d) sum += q[d] * k[d * kBlock + slot];
  }
  return sum;
}

template <bool kBf16>
void add_values(const AttentionTile& tile, int token, float weight, float* values) {
  const int dim = tile.head_dim;
  const int at = token % kBlock * dim;
  if constexpr (kBf16) {
    const auto* const v = reinterpret_cast<const uint16_t*>(tile.v_blocks[token / kBlock]) + at;
    for (int d = 0; d < dim; ++d) values[d] += weight * bf16_to_float(v[d]);
  } else {
    const auto* const v = reinterpret_cast<const float*>(tile.v_blocks[token / kBlock]) + at;
    for (int d = 0; d < dim; ++d) values[d] += weight * v[d];
  }
}

template <bool kBf16>
void attend(AttentionTile& tile) {
  for (int row = 0; row < tile.rows; ++row) {
    float* const scores = tile.scores + row * kAttentionPartition;
    float max = -HUGE_VALF, sum = 0;
    for (int t = tile.begin[row]; t < tile.end[row]; ++t) {
      float s = dot<kBf16>(tile, row, t) * tile.scale;
      if (tile.softcap != 0) s = tile.softcap * std::tanh(s / tile.softcap);
      scores[t] = s;
      max = s > max ? s : max;
    }
    tile.max[row] = max;
    if (tile.begin[row] == tile.end[row]) continue;
    float* const values = tile.values + row * tile.value_stride;
    for (int64_t d = 0; d < tile.value_stride; ++d) values[d] = 0;
    for (int t = tile.begin[row]; t < tile.end[row]; ++t) {
      const float weight = std::exp(scores[t] - max);
      sum += weight;
      add_values<kBf16>(tile, t, kBf16 ? bf16_to_float(float_to_bf16(weight)) : weight, values);
    }
    tile.sum[row] = sum;
  }
}

void merge(float* acc, float a, const float* part, float b, int64_t size) {
  for (int64_t i = 0; i < size; ++i) acc[i] = acc[i] * a + part[i] * b;
}

void scale(const float* x, float factor, int64_t size, float* y) {
  for (int64_t i = 0; i < size; ++i) y[i] = x[i] * factor;
}

}  // namespace

const AttentionBody attention_body = {attend<false>, attend<true>, merge, scale};

}  // namespace pagoda::kernels::scalar
