#include "quantize/gguf/k_blocks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "tensor/half.h"

namespace pagoda::quantize {
namespace {

constexpr int kBlock = 256;
constexpr int kLanes = 8;

// The nearest whole number for |value| < 2^22, in two additions that compilers vectorise on every CPU.
float nearest(float value) {
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23
  return (value + kMagic) - kMagic;
}

float clamp(float value, float low, float high) {
  const float above = value < low ? low : value;
  return above > high ? high : above;
}

float half(float value) {
  return f16_to_f32(f32_to_f16(value));
}

float inverse_of(float value) {
  return value != 0 ? 1.0f / value : 0.0f;
}

// Sums in lanes, so that a compiler may keep them in one register.
struct Lanes {
  float at[kLanes] = {};
  float sum() const {
    float total = 0;
    for (const float lane : at) total += lane;
    return total;
  }
};

// Codes of a group and what they cost: the sum of squares of scale * code - minimum - value.
template <int kSize>
struct Codes {
  float at[kSize];
  float error = std::numeric_limits<float>::max();
};

template <int kSize>
struct Grid {
  float low, high;  // of the codes

  Codes<kSize> round(const float* x, float scale, float minimum) const {
    const float inverse = inverse_of(scale);
    Codes<kSize> codes;
    Lanes error;
    for (int i = 0; i < kSize; i += kLanes) {
      for (int l = 0; l < kLanes; ++l) {
        const float code = clamp(nearest((x[i + l] + minimum) * inverse), low, high);
        const float off = scale * code - minimum - x[i + l];
        codes.at[i + l] = code;
        error.at[l] += off * off;
      }
    }
    codes.error = error.sum();
    return codes;
  }
};

// What a least-squares fit of values by codes needs.
template <int kSize>
struct Moments {
  float c = 0, cc = 0, cx = 0, x = 0;

  Moments(const float* values, const Codes<kSize>& codes) {
    Lanes one, two, mixed, value;
    for (int i = 0; i < kSize; i += kLanes) {
      for (int l = 0; l < kLanes; ++l) {
        const float code = codes.at[i + l];
        one.at[l] += code;
        two.at[l] += code * code;
        mixed.at[l] += code * values[i + l];
        value.at[l] += values[i + l];
      }
    }
    c = one.sum();
    cc = two.sum();
    cx = mixed.sum();
    x = value.sum();
  }
};

struct Affine {
  float scale = 0, minimum = 0;  // neither negative
};

constexpr int kQ4Group = 32, kQ4Groups = kBlock / kQ4Group;
constexpr Grid<kQ4Group> kQ4Grid = {0, 15};

// The best scale and minimum for codes that are given.
Affine fit_affine(const float* x, const Codes<kQ4Group>& codes) {
  const Moments<kQ4Group> m(x, codes);
  constexpr float kCount = kQ4Group;
  const float determinant = kCount * m.cc - m.c * m.c;
  Affine fit;
  if (determinant > 0) {
    fit.scale = (kCount * m.cx - m.c * m.x) / determinant;
    fit.minimum = (fit.scale * m.c - m.x) / kCount;
  }
  if (!(determinant > 0) || fit.minimum < 0) fit = {m.cx * inverse_of(m.cc), 0};
  fit.scale = std::max(fit.scale, 0.0f);
  return fit;
}

// A grid for one group, before its scale and minimum become codes themselves.
Affine search_affine(const float* x) {
  const auto [lowest, highest] = std::minmax_element(x, x + kQ4Group);
  const float low = std::min(*lowest, 0.0f), range = *highest - low;
  Affine best;
  if (!(range > 0)) return best;
  float best_error = std::numeric_limits<float>::max();
  // Wider grids than the values' range cost steps, narrower ones cut the extremes: both sides are tried.
  for (float steps = 12.5f; steps < 17.0f; steps += 0.5f) {
    Affine fit{range / steps, -low};
    constexpr int kRounds = 3;
    for (int round = 0; round < kRounds; ++round) {
      const auto codes = kQ4Grid.round(x, fit.scale, fit.minimum);
      if (codes.error < best_error) {
        best_error = codes.error;
        best = fit;
      }
      fit = fit_affine(x, codes);
    }
  }
  return best;
}

struct Q4Block {
  float d = 0, dmin = 0;
  std::array<int, kQ4Groups> scales{}, minima{};
  std::array<Codes<kQ4Group>, kQ4Groups> codes;
  float error = 0;
};

// Codes for the scales and minima of all groups under given factors: of the neighbours of each, those with
// the least error.
Q4Block code_groups(const float* x, const std::array<Affine, kQ4Groups>& wanted, float d, float dmin) {
  Q4Block block;
  block.d = d;
  block.dmin = dmin;
  constexpr int kLargest = 63;
  for (size_t g = 0; g < kQ4Groups; ++g) {
    const int scale = static_cast<int>(nearest(std::min(wanted[g].scale * inverse_of(d), 64.0f)));
    const int minimum = static_cast<int>(nearest(std::min(wanted[g].minimum * inverse_of(dmin), 64.0f)));
    for (int s = std::max(scale - 1, 0); s <= std::min(scale + 1, kLargest); ++s) {
      for (int m = std::max(minimum - 1, 0); m <= std::min(minimum + 1, kLargest); ++m) {
        const auto codes =
            kQ4Grid.round(x + g * kQ4Group, d * static_cast<float>(s), dmin * static_cast<float>(m));
        if (!(codes.error < block.codes[g].error)) continue;
        block.codes[g] = codes;
        block.scales[g] = s;
        block.minima[g] = m;
      }
    }
    block.error += block.codes[g].error;
  }
  return block;
}

// The best factors for codes that are given: least squares in two unknowns over the block.
Affine fit_factors(const float* x, const Q4Block& block) {
  double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;
  for (size_t g = 0; g < kQ4Groups; ++g) {
    const Moments<kQ4Group> m(x + g * kQ4Group, block.codes[g]);
    const double s = block.scales[g], n = block.minima[g];
    aa += s * s * double{m.cc};
    ab += s * n * double{m.c};
    bb += n * n * kQ4Group;
    ax += s * double{m.cx};
    bx += n * double{m.x};
  }
  const double determinant = aa * bb - ab * ab;
  if (!(determinant > 1e-9 * aa * bb)) return {aa > 0 ? static_cast<float>(ax / aa) : 0, block.dmin};
  return {static_cast<float>((bb * ax - ab * bx) / determinant),
          static_cast<float>((ab * ax - aa * bx) / determinant)};
}

void store_q4_k(const Q4Block& block, uint8_t* out) {
  std::memset(out, 0, 16);
  store_half(out, block.d);
  store_half(out + 2, block.dmin);
  uint8_t* const packed = out + 4;
  const auto put = [](uint8_t& byte, int bits) { byte = static_cast<uint8_t>(byte | bits); };
  for (size_t g = 0; g < kQ4Groups; ++g) {
    const int scale = block.scales[g], minimum = block.minima[g];
    if (g < 4) {
      put(packed[g], scale);
      put(packed[g + 4], minimum);
    } else {
      put(packed[g + 4], (scale & 15) | (minimum & 15) << 4);
      put(packed[g - 4], scale >> 4 << 6);
      put(packed[g], minimum >> 4 << 6);
    }
  }
  for (size_t pair = 0; pair < kQ4Groups / 2; ++pair) {
    const auto &low = block.codes[2 * pair], &high = block.codes[2 * pair + 1];
    for (size_t l = 0; l < kQ4Group; ++l) {
      out[16 + pair * kQ4Group + l] =
          static_cast<uint8_t>(static_cast<int>(low.at[l]) | static_cast<int>(high.at[l]) << 4);
    }
  }
}

constexpr int kQ6Group = 16, kQ6Groups = kBlock / kQ6Group;
constexpr Grid<kQ6Group> kQ6Grid = {-32, 31};

float search_scale(const float* x) {
  const float extreme =
      *std::max_element(x, x + kQ6Group, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
  float best = 0, best_error = std::numeric_limits<float>::max();
  // Of either sign: one of the two extremes may have the code more that the grid has below zero.
  for (float steps = 29.5f; steps < 34.0f; steps += 0.5f) {
    float scale = -extreme / steps;
    constexpr int kRounds = 2;
    for (int round = 0; round < kRounds; ++round) {
      const auto codes = kQ6Grid.round(x, scale, 0);
      if (codes.error < best_error) {
        best_error = codes.error;
        best = scale;
      }
      const Moments<kQ6Group> m(x, codes);
      scale = m.cx * inverse_of(m.cc);
    }
  }
  return best;
}

struct Q6Block {
  float d = 0;
  std::array<int, kQ6Groups> scales{};
  std::array<Codes<kQ6Group>, kQ6Groups> codes;
  float error = 0;
};

Q6Block code_scales(const float* x, const std::array<float, kQ6Groups>& wanted, float d) {
  Q6Block block;
  block.d = d;
  for (size_t g = 0; g < kQ6Groups; ++g) {
    const int scale = static_cast<int>(nearest(clamp(wanted[g] * inverse_of(d), -129, 129)));
    for (int s = std::max(scale - 1, -128); s <= std::min(scale + 1, 127); ++s) {
      const auto codes = kQ6Grid.round(x + g * kQ6Group, d * static_cast<float>(s), 0);
      if (!(codes.error < block.codes[g].error)) continue;
      block.codes[g] = codes;
      block.scales[g] = s;
    }
    block.error += block.codes[g].error;
  }
  return block;
}

float fit_factor(const float* x, const Q6Block& block) {
  double ss = 0, sx = 0;
  for (size_t g = 0; g < kQ6Groups; ++g) {
    const Moments<kQ6Group> m(x + g * kQ6Group, block.codes[g]);
    const double s = block.scales[g];
    ss += s * s * double{m.cc};
    sx += s * double{m.cx};
  }
  return ss > 0 ? static_cast<float>(sx / ss) : 0;
}

void store_q6_k(const Q6Block& block, uint8_t* out) {
  std::memset(out, 0, 192);
  for (int i = 0; i < kBlock; ++i) {
    const auto g = static_cast<size_t>(i / kQ6Group), k = static_cast<size_t>(i % kQ6Group);
    const int code = static_cast<int>(block.codes[g].at[k]) + 32;
    const int h = i / 128, quarter = i % 128 / 32, l = i % 32;
    uint8_t& nibbles = out[h * 64 + quarter % 2 * 32 + l];
    uint8_t& fields = out[128 + h * 32 + l];
    nibbles = static_cast<uint8_t>(nibbles | (code & 15) << (quarter < 2 ? 0 : 4));
    fields = static_cast<uint8_t>(fields | (code >> 4) << (2 * quarter));
  }
  for (size_t g = 0; g < kQ6Groups; ++g)
    out[192 + g] = static_cast<uint8_t>(static_cast<int8_t>(block.scales[g]));
  store_half(out + 208, block.d);
}

}  // namespace

void store_half(uint8_t* out, float value) {
  const uint16_t bits = f32_to_f16(value);
  std::memcpy(out, &bits, sizeof(bits));
}

void encode_q4_k(const float* x, uint8_t* out) {
  std::array<Affine, kQ4Groups> wanted;
  Affine largest;
  for (size_t g = 0; g < kQ4Groups; ++g) {
    wanted[g] = search_affine(x + g * kQ4Group);
    largest.scale = std::max(largest.scale, wanted[g].scale);
    largest.minimum = std::max(largest.minimum, wanted[g].minimum);
  }
  Q4Block best = code_groups(x, wanted, half(largest.scale / 63.0f), half(largest.minimum / 63.0f));
  constexpr int kRounds = 2;
  for (int round = 0; round < kRounds; ++round) {
    const Affine factors = fit_factors(x, best);
    const float d = half(factors.scale), dmin = half(factors.minimum);
    if (!(d > 0 && dmin >= 0 && std::isfinite(d) && std::isfinite(dmin))) break;
    const Q4Block next = code_groups(x, wanted, d, dmin);
    if (!(next.error < best.error)) break;
    best = next;
  }
  store_q4_k(best, out);
}

void encode_q6_k(const float* x, uint8_t* out) {
  std::array<float, kQ6Groups> wanted;
  float largest = 0;
  for (size_t g = 0; g < kQ6Groups; ++g) {
    wanted[g] = search_scale(x + g * kQ6Group);
    if (std::fabs(wanted[g]) > std::fabs(largest)) largest = wanted[g];
  }
  Q6Block best = code_scales(x, wanted, half(largest / -128.0f));
  constexpr int kRounds = 2;
  for (int round = 0; round < kRounds; ++round) {
    const float d = half(fit_factor(x, best));
    if (d == 0 || !std::isfinite(d)) break;
    const Q6Block next = code_scales(x, wanted, d);
    if (!(next.error < best.error)) break;
    best = next;
  }
  store_q6_k(best, out);
}

}  // namespace pagoda::quantize
