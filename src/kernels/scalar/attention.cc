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

// Exact; subnormals included.
float f16_to_float(uint16_t bits) {
  const uint32_t sign = uint32_t{bits} >> 15 << 31, exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
  if (exponent == 0) {
    const float size = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -size : size;
  }
  return bits_to_float(sign | (exponent == 31 ? 255 : exponent + 112) << 23 | fraction << 13);
}

uint16_t float_to_f16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  bits &= 0x7fffffff;
  if (bits > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00);
  if (bits >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);  // 65520 and more
  if (bits < 0x38800000) {                                              // below 2^-14: a multiple of 2^-24
    const float steps = std::nearbyint(bits_to_float(bits) * 0x1p24f);
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(steps));
  }
  bits += 0xfff + (bits >> 13 & 1);
  return static_cast<uint16_t>(sign | (bits - (112u << 23)) >> 13);
}

enum class Kv { kF32, kF16, kBf16 };

// q . k of one token; the bf16 cache keeps pairs of dimensions together and takes the odd one first.
template <Kv kKv>
float dot(const AttentionTile& tile, int row, int token) {
  const int dim = tile.head_dim, slot = token % kBlock;
  const uint8_t* const block = tile.k_blocks[token / kBlock];
  float sum = 0;
  if constexpr (kKv == Kv::kBf16) {
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
    for (int d = 0; d < dim; ++d) {
      if constexpr (kKv == Kv::kF16) {
        sum += q[d] * f16_to_float(reinterpret_cast<const uint16_t*>(block)[d * kBlock + slot]);
      } else {
        sum += q[d] * reinterpret_cast<const float*>(block)[d * kBlock + slot];
      }
    }
  }
  return sum;
}

template <Kv kKv>
void add_values(const AttentionTile& tile, int token, float weight, float* values) {
  const int dim = tile.head_dim;
  const int at = token % kBlock * dim;
  if constexpr (kKv != Kv::kF32) {
    const auto* const v = reinterpret_cast<const uint16_t*>(tile.v_blocks[token / kBlock]) + at;
    for (int d = 0; d < dim; ++d)
      values[d] += weight * (kKv == Kv::kBf16 ? bf16_to_float(v[d]) : f16_to_float(v[d]));
  } else {
    const auto* const v = reinterpret_cast<const float*>(tile.v_blocks[token / kBlock]) + at;
    for (int d = 0; d < dim; ++d) values[d] += weight * v[d];
  }
}

template <Kv kKv>
void attend(AttentionTile& tile) {
  for (int row = 0; row < tile.rows; ++row) {
    float* const scores = tile.scores + row * kAttentionPartition;
    float max = -HUGE_VALF, sum = 0;
    for (int t = tile.begin[row]; t < tile.end[row]; ++t) {
      float s = dot<kKv>(tile, row, t) * tile.scale;
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
      add_values<kKv>(tile, t, kKv == Kv::kBf16 ? bf16_to_float(float_to_bf16(weight)) : weight, values);
    }
    tile.sum[row] = sum;
  }
}

const float* scales_of(const AttentionTile& tile, const uint8_t* block) {
  return reinterpret_cast<const float*>(block + tile.head_dim * kBlock);
}

// Turns weights [begin, end) into codes, and returns what one of them stands for.
float round_weights(const float* weights, int begin, int end, int16_t* codes) {
  float largest = 0, sum = 0;
  for (int t = begin; t < end; ++t) {
    largest = weights[t] > largest ? weights[t] : largest;
    sum += weights[t];
  }
  const bool finite = sum - sum == 0;
  const float factor = finite && largest >= 0x1p-100f ? 32767 / largest : 0;
  for (int t = begin; t < end; ++t)
    codes[t] = static_cast<int16_t>(factor == 0 ? 0 : std::nearbyint(weights[t] * factor));
  return finite ? (factor == 0 ? 0 : largest / 32767) : bits_to_float(0x7fc00000);
}

void attend_row_int8(AttentionTile& tile, int row) {
  const int dim = tile.head_dim, begin = tile.begin[row], end = tile.end[row];
  float* const scores = tile.scores + row * kAttentionPartition;
  auto* const codes = reinterpret_cast<int16_t*>(tile.weights) + row * kAttentionPartition;
  const auto* const q = reinterpret_cast<const int16_t*>(tile.q) + row * dim;
  const float q_scale = tile.q_scale[row] * tile.scale;
  float max = -HUGE_VALF, sum = 0;
  for (int t = begin; t < end; ++t) {
    const uint8_t* const block = tile.k_blocks[t / kBlock];
    const auto* const k = reinterpret_cast<const int8_t*>(block) + t % kBlock * 2;
    int32_t product = 0;
    for (int d = 0; d < dim; ++d) product += int32_t{q[d]} * k[d / 2 * kBlock * 2 + d % 2];
    float s = static_cast<float>(product) * (q_scale * scales_of(tile, block)[t % kBlock]);
    if (tile.softcap != 0) s = tile.softcap * std::tanh(s / tile.softcap);
    scores[t] = s;
    max = s > max ? s : max;
  }
  tile.max[row] = max;
  if (begin == end) return;
  for (int t = begin; t < end; ++t) {
    const float weight = std::exp(scores[t] - max);
    sum += weight;
    scores[t] = weight * scales_of(tile, tile.v_blocks[t / kBlock])[t % kBlock];
  }
  tile.sum[row] = sum;
  const float step = round_weights(scores, begin, end, codes);
  float* const values = tile.values + row * tile.value_stride;
  for (int64_t d = 0; d < tile.value_stride; ++d) {
    int32_t total = 0;
    for (int t = begin; t < end && d < dim; ++t) {
      const auto* const v = reinterpret_cast<const int8_t*>(tile.v_blocks[t / kBlock]);
      total += int32_t{codes[t]} * v[(t % kBlock / 2 * dim + d) * 2 + t % 2];
    }
    values[d] = static_cast<float>(total) * step;
  }
}

void attend_int8(AttentionTile& tile) {
  for (int row = 0; row < tile.rows; ++row) attend_row_int8(tile, row);
}

float quantize(const float* x, int64_t size, float limit, int16_t* codes) {
  float max = 0, sum = 0;
  for (int64_t i = 0; i < size; ++i) {
    const float value = std::fabs(x[i]);
    max = value > max ? value : max;
    sum += value * 0;  // NaN where a value is not finite
  }
  const float factor = sum == 0 && max >= 0x1p-100f ? limit / max : 0;
  for (int64_t i = 0; i < size; ++i)
    codes[i] = static_cast<int16_t>(factor == 0 ? 0 : std::nearbyint(x[i] * factor));
  return sum != 0 || sum != sum ? bits_to_float(0x7fc00000) : factor == 0 ? 0 : max / limit;
}

void round_f16(const float* x, int64_t size, uint16_t* out) {
  for (int64_t i = 0; i < size; ++i) out[i] = float_to_f16(x[i]);
}

void merge(float* acc, float a, const float* part, float b, int64_t size) {
  for (int64_t i = 0; i < size; ++i) acc[i] = acc[i] * a + part[i] * b;
}

void scale(const float* x, float factor, int64_t size, float* y) {
  for (int64_t i = 0; i < size; ++i) y[i] = x[i] * factor;
}

}  // namespace

const AttentionBody attention_body = {
    attend<Kv::kF32>, attend<Kv::kF16>, attend<Kv::kBf16>, attend_int8, quantize, round_f16, merge, scale};

}  // namespace pagoda::kernels::scalar
