#include <cmath>
#include <cstring>

#include "kernels/bodies.h"

namespace pagoda::kernels::scalar {
namespace {

constexpr int kLanes = 32;

// The half formats are converted here again because bodies include nothing but bodies.h.
float half_to_float(const uint8_t* at) {
  uint16_t bits;
  std::memcpy(&bits, at, 2);
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16, exponent = bits >> 10 & 0x1f, mantissa = bits & 0x3ff;
  const float magnitude =
      exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                    : std::ldexp(static_cast<float>(mantissa + 1024), static_cast<int>(exponent) - 25);
  return sign != 0 ? -magnitude : magnitude;
}

float bf16_to_float(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

void finish(const MatmulPanel& p, int64_t row, const float* acc, float multiplier) {
  float* const out = p.out + row * p.out_stride;
  for (int n = 0; n < kLanes; ++n) {
    float y = acc[n] * multiplier;
    if (p.bias != nullptr) y += p.bias[n];
    if (p.accumulate) y += out[n];
    out[n] = y;
  }
}

void f32(const MatmulPanel& p) {
  const auto* const w = reinterpret_cast<const float*>(p.weights);
  for (int64_t row = 0; row < p.rows; ++row) {
    const float* const x = p.f32 + row * p.depth;
    float acc[kLanes] = {};
    for (int64_t k = 0; k < p.depth; ++k) {
      for (int n = 0; n < kLanes; ++n) acc[n] += w[k * kLanes + n] * x[k];
    }
    finish(p, row, acc, 1.0f);
  }
}

void bf16(const MatmulPanel& p) {
  const auto* const w = reinterpret_cast<const uint16_t*>(p.weights);
  for (int64_t row = 0; row < p.rows; ++row) {
    const uint16_t* const x = p.bf16 + row * p.depth;
    float acc[kLanes] = {};
    for (int64_t k = 0; k < p.depth; k += 2) {
      const float even = bf16_to_float(x[k]), odd = bf16_to_float(x[k + 1]);
      for (int n = 0; n < kLanes; ++n) {
        acc[n] += bf16_to_float(w[k * kLanes + n * 2 + 1]) * odd;
        acc[n] += bf16_to_float(w[k * kLanes + n * 2]) * even;
      }
    }
    finish(p, row, acc, 1.0f);
  }
}

int w8_code(const uint8_t* codes, int n, int k) {
  return codes[k / 4 * 128 + n * 4 + k % 4];
}
int w4_code(const uint8_t* codes, int n, int k) {
  return codes[k / 8 * 128 + n * 4 + k % 4] >> (k % 8 < 4 ? 0 : 4) & 15;
}

// The low four bits of kColumns columns lie before their high ones.
template <int kBits, int kColumns>
int split_code(const uint8_t* codes, int n, int k) {
  const uint8_t* const unit = codes + k / kColumns * (kColumns * 16 + 128);
  const int at = k % kColumns, shift = at / 4 * (kBits - 4), mask = (1 << (kBits - 4)) - 1;
  return w4_code(unit, n, at) | (unit[kColumns * 16 + n * 4 + k % 4] >> shift & mask) << 4;
}

constexpr int kLargestGroup = 128;

// One activation row in the columns of one weight group.
struct RowGroup {
  int64_t row, first;
  int x[kLargestGroup];
};

// Fills in the values; moves `low` past what it read.
void widen(const MatmulPanel& p, const int8_t*& low, RowGroup& group) {
  const int8_t* const codes = p.codes + group.row * p.depth + group.first;
  for (int k = 0; k < p.group_size; ++k) {
    group.x[k] = p.wide[(group.first + k) / 32] == 0 ? codes[k] : 256 * codes[k] + *low++;
  }
}

// The formula of bodies.h, for one activation row and one weight group; `base` points at the group's scales.
template <int (*kCode)(const uint8_t*, int, int)>
void add_group(const MatmulPanel& p, const uint8_t* base, const RowGroup& group, float* acc) {
  const uint8_t* const codes = base + (p.has_offsets ? 128 : 64);
  const int step = p.group_size < 32 ? p.group_size : 32;
  const int64_t first = group.first;
  const int64_t scale_at = group.row * (p.depth / 32), sum_at = group.row * (p.depth / 16);
  float u = 0;
  for (int part = 0; part < p.group_size; part += step) {
    const int64_t a = scale_at + (first + part) / 32;
    u += step < 32 ? p.scales[a] * static_cast<float>(p.sums[sum_at + first / 16]) : p.scaled_sums[a];
  }
  for (int n = 0; n < kLanes; ++n) {
    float t = 0;
    for (int part = 0; part < p.group_size; part += step) {
      int32_t dot = 0;
      for (int k = part; k < part + step; ++k) dot += (kCode(codes, n, k) - p.zero_point) * group.x[k];
      t = std::fma(p.scales[scale_at + (first + part) / 32], static_cast<float>(dot), t);
    }
    acc[n] = std::fma(half_to_float(base + n * 2), t, acc[n]);
    if (p.has_offsets) acc[n] = std::fma(half_to_float(base + 64 + n * 2) * p.offset_ratio, u, acc[n]);
  }
}

template <int (*kCode)(const uint8_t*, int, int)>
void coded(const MatmulPanel& p, int bits) {
  const int64_t group_bytes = (p.has_offsets ? 128 : 64) + p.group_size * kLanes * bits / 8;
  for (int64_t row = 0; row < p.rows; ++row) {
    float acc[kLanes] = {};
    const uint8_t* base = p.weights;
    const int8_t* low = p.low_codes + row * p.low_depth;
    for (int64_t first = 0; first < p.depth; first += p.group_size, base += group_bytes) {
      RowGroup group;
      group.row = row;
      group.first = first;
      widen(p, low, group);
      add_group<kCode>(p, base, group, acc);
    }
    finish(p, row, acc, p.multiplier);
  }
}

void w8(const MatmulPanel& p) {
  coded<w8_code>(p, 8);
}
void w6(const MatmulPanel& p) {
  coded<split_code<6, 16>>(p, 6);
}
void w5(const MatmulPanel& p) {
  coded<split_code<5, 32>>(p, 5);
}
void w4(const MatmulPanel& p) {
  coded<w4_code>(p, 4);
}

}  // namespace

const MatmulBody matmul_body = {f32, bf16, w8, w6, w5, w4};

}  // namespace pagoda::kernels::scalar
