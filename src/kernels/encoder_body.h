// The one body of the encoder's operations, in portable vectors; every tier's encoder.cc includes it inside
// its own anonymous namespace. No include guard: the includer's namespace is part of it.
#include "kernels/portable_vector.h"

// exp of x <= 0: x = n ln 2 + r with |r| <= 0.35, the Taylor series of degree 7 (its next term is below 6e-9
// of the value) times 2^n. Below -87 it is 0.
PAGODA_BODY void exp_of_negative(Vec& x) {
  const Mask tiny = x < -87.0f;
  const Vec scaled = x * 1.44269504f - 0.5f;
  const Mask whole = __builtin_convertvector(scaled, Mask);  // towards zero: the nearest, as x <= 0
  const Vec n = __builtin_convertvector(whole, Vec);
  const Vec r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  Vec p = r * (1.0f / 5040) + (1.0f / 720);
  p = p * r + (1.0f / 120);
  p = p * r + (1.0f / 24);
  p = p * r + (1.0f / 6);
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const Mask power = (whole + 127) << 23;
  Vec factor;
  __builtin_memcpy(&factor, &power, sizeof(Vec));
  x = tiny ? Vec{} : p * factor;
}

void gelu_erf(float* x, int64_t size) {
  for (int64_t i = 0; i < size; i += 16) {
    Vec v;
    load_up_to(x + i, size - i, 0.0f, v);
    const Vec z = v * 0.70710678118654752f;
    const Vec a = z < 0.0f ? -z : z;
    const Vec t = 1.0f / (1.0f + 0.3275911f * a);
    const Vec poly =
        ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t + 0.254829592f) * t;
    Vec e = -(a * a);
    exp_of_negative(e);
    const Vec tail = poly * e;  // 1 - erf(|z|)
    store_up_to(x + i, size - i, 0.5f * v * (v < 0.0f ? tail : 2.0f - tail));
  }
}

PAGODA_BODY int64_t padded_tokens(const EncoderAttentionHead& head) {
  return (head.tokens + 15) / 16 * 16;
}

// Scores of four queries against all keys (`keys` is [head_dim][padded tokens]), then their softmax without
// the division; `sums` are the divisors.
PAGODA_BODY void score_rows(const EncoderAttentionHead& head, int64_t row, const float* keys, float* scores,
                            float* sums) {
  const int64_t padded = padded_tokens(head);
  const float* q[4];
  for (int i = 0; i < 4; ++i)
    q[i] = head.q + (row + i < head.tokens ? row + i : head.tokens - 1) * head.stride;
  for (int64_t at = 0; at < padded; at += 16) {
    Vec acc[4] = {};
    for (int64_t j = 0; j < head.head_dim; ++j) {
      Vec k;
      load(keys + j * padded + at, k);
      for (int i = 0; i < 4; ++i) acc[i] += k * q[i][j];
    }
    for (int i = 0; i < 4; ++i) store(scores + i * padded + at, acc[i] * head.scale);
  }
  for (int i = 0; i < 4; ++i) {
    float* const line = scores + i * padded;
    for (int64_t at = head.tokens; at < padded; ++at) line[at] = -__builtin_inff();
    Vec v, best, sum = {};
    load(line, best);
    for (int64_t at = 16; at < padded; at += 16) {
      load(line + at, v);
      best = v > best ? v : best;
    }
    const float max = max_of(best);
    for (int64_t at = 0; at < padded; at += 16) {
      load(line + at, v);
      v -= max;
      exp_of_negative(v);
      store(line + at, v);
      sum += v;
    }
    sums[i] = sum_of(sum);
  }
}

void attend(const EncoderAttentionHead& head) {
  const int64_t padded = padded_tokens(head), width = (head.head_dim + 15) / 16 * 16;
  float* const keys = head.scratch;             // [head_dim][padded]
  float* const values = keys + padded * width;  // [tokens][width]
  float* const scores = values + padded * width;
  for (int64_t t = 0; t < padded; ++t) {
    for (int64_t j = 0; j < head.head_dim; ++j) {
      keys[j * padded + t] = t < head.tokens ? head.k[t * head.stride + j] : 0.0f;
    }
  }
  for (int64_t t = 0; t < head.tokens; ++t) {
    for (int64_t j = 0; j < width; ++j) {
      values[t * width + j] = j < head.head_dim ? head.v[t * head.stride + j] : 0.0f;
    }
  }
  for (int64_t row = 0; row < head.tokens; row += 4) {
    float sums[4];
    score_rows(head, row, keys, scores, sums);
    for (int64_t at = 0; at < width; at += 16) {
      Vec acc[4] = {};
      for (int64_t t = 0; t < head.tokens; ++t) {
        Vec v;
        load(values + t * width + at, v);
        for (int i = 0; i < 4; ++i) acc[i] += v * scores[i * padded + t];
      }
      for (int i = 0; i < 4 && row + i < head.tokens; ++i) {
        store_up_to(head.out + (row + i) * head.out_stride + at, head.head_dim - at, acc[i] / sums[i]);
      }
    }
  }
}

#undef PAGODA_BODY
