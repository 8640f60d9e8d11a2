#include "model/loader/gguf_blocks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace pagoda::model {
namespace {

// f16_to_f32 without branches: every 32 elements bring one or two of these numbers. The product moves the
// exponent's bias from 15 to 127 and makes subnormal numbers normal ones; both are exact. The exponent of
// infinities and NaN is set by hand.
float load_half(const uint8_t* at) {
  uint16_t bits;
  std::memcpy(&bits, at, 2);
  const uint32_t magnitude = bits & 0x7fffu, sign = (bits & 0x8000u) << 16;
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  const uint32_t top = magnitude >= 0x7c00 ? 0x7f800000 : 0;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(scaled) | top | sign);
}

uint8_t low(uint8_t byte) {
  return byte & 0xf;
}
uint8_t high(uint8_t byte) {
  return byte >> 4;
}

// 16 bytes hold elements 0..15 in their low and 16..31 in their high nibbles.
void read_nibbles(const uint8_t* packed, uint8_t* codes) {
  uint8_t bytes[16];  // a copy can't be overwritten by the codes: the compiler needs to know that
  std::memcpy(bytes, packed, sizeof(bytes));
  for (int j = 0; j < 16; ++j) codes[j] = low(bytes[j]);
  for (int j = 0; j < 16; ++j) codes[j + 16] = high(bytes[j]);
}

// Q4_0: f16 d, 16 bytes of nibbles. w = d * (q - 8).
void q4_0_scales(const uint8_t* block, float* scales, float*) {
  scales[0] = load_half(block);
}
void q4_0_codes(const uint8_t* block, uint8_t* codes) {
  read_nibbles(block + 2, codes);
}

// Q4_1: f16 d, f16 m, 16 bytes of nibbles. w = d * q + m. Q5_1 begins alike.
void d_m_scales(const uint8_t* block, float* scales, float* offsets) {
  scales[0] = load_half(block);
  offsets[0] = load_half(block + 2);
}
void q4_1_codes(const uint8_t* block, uint8_t* codes) {
  read_nibbles(block + 4, codes);
}

constexpr uint8_t kBitOfByte[32] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128,
                                    1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};

// Bit j of the 32 bits at `fifth` is the fifth bit of element j.
void read_five_bits(const uint8_t* fifth, const uint8_t* packed, uint8_t* codes) {
  // A byte of bits for each element, so that the last loop is a comparison and not a variable shift.
  uint8_t spread[32];
  for (int i = 0; i < 4; ++i) std::memset(spread + 8 * i, fifth[i], 8);
  read_nibbles(packed, codes);
  for (int j = 0; j < 32; ++j) codes[j] |= (spread[j] & kBitOfByte[j]) != 0 ? 16 : 0;
}

// Q5_0: f16 d, 32 fifth bits, 16 bytes of nibbles. w = d * (q - 16).
void q5_0_codes(const uint8_t* block, uint8_t* codes) {
  read_five_bits(block + 2, block + 6, codes);
}
// Q5_1: f16 d, f16 m, 32 fifth bits, 16 bytes of nibbles. w = d * q + m.
void q5_1_codes(const uint8_t* block, uint8_t* codes) {
  read_five_bits(block + 4, block + 8, codes);
}

// Q8_0: f16 d, 32 int8. w = d * q; adding 128 to q (flipping its top bit) makes it unsigned.
void q8_0_codes(const uint8_t* block, uint8_t* codes) {
  for (int j = 0; j < 32; ++j) codes[j] = block[2 + j] ^ 0x80;
}

// Two-bit fields of Q2_K and Q3_K: byte l of half h holds elements 128 h + l + {0, 32, 64, 96}, lowest bits
// first.
void read_two_bits(const uint8_t* packed, uint8_t* codes) {
  for (int h = 0; h < 2; ++h) {
    for (int j = 0; j < 4; ++j) {
      for (int l = 0; l < 32; ++l) codes[h * 128 + j * 32 + l] = packed[h * 32 + l] >> (2 * j) & 3;
    }
  }
}

// Q2_K: 16 bytes (scale in the low nibble, minimum in the high one), 64 bytes of two-bit codes, f16 d, f16
// dmin. w = d * scale * q - dmin * minimum, in groups of 16.
void q2_k_scales(const uint8_t* block, float* scales, float* offsets) {
  const float d = load_half(block + 80), dmin = load_half(block + 82);
  for (int g = 0; g < 16; ++g) {
    scales[g] = d * low(block[g]);
    offsets[g] = -(dmin * high(block[g]));
  }
}
void q2_k_codes(const uint8_t* block, uint8_t* codes) {
  read_two_bits(block + 16, codes);
}

// Q3_K: 32 bytes of third bits, 64 bytes of two-bit fields, 12 bytes with 16 scales of 6 bits, f16 d.
// w = d * (scale - 32) * (q - 4), in groups of 16; scale g keeps its low 4 bits in byte g % 8 and its high 2
// bits in byte 8 + g % 4.
void q3_k_scales(const uint8_t* block, float* scales, float*) {
  const uint8_t* const packed = block + 96;
  const float d = load_half(block + 108);
  for (int g = 0; g < 16; ++g) {
    const int low_bits = g < 8 ? low(packed[g]) : high(packed[g - 8]);
    const int high_bits = packed[8 + g % 4] >> (2 * (g / 4)) & 3;
    scales[g] = d * static_cast<float>((low_bits | high_bits << 4) - 32);
  }
}
void q3_k_codes(const uint8_t* block, uint8_t* codes) {
  read_two_bits(block + 32, codes);
  for (int g = 0; g < 8; ++g) {
    for (int l = 0; l < 32; ++l) {
      uint8_t& code = codes[g * 32 + l];
      code = static_cast<uint8_t>(code | (block[l] >> g & 1) << 2);
    }
  }
}

// The 12 bytes of Q4_K and Q5_K: 8 scales and 8 minima of 6 bits. The first four of each lie in the low 6
// bits of bytes 0..3 and 4..7; the others keep 4 bits in bytes 8..11 and 2 bits on top of bytes 0..3
// and 4..7.
void six_bit_scales(const uint8_t* block, float* scales, float* offsets) {
  const float d = load_half(block), dmin = load_half(block + 2);
  const uint8_t* const packed = block + 4;
  for (int g = 0; g < 8; ++g) {
    int scale, minimum;
    if (g < 4) {
      scale = packed[g] & 63;
      minimum = packed[g + 4] & 63;
    } else {
      scale = low(packed[g + 4]) | packed[g - 4] >> 6 << 4;
      minimum = high(packed[g + 4]) | packed[g] >> 6 << 4;
    }
    scales[g] = d * static_cast<float>(scale);
    offsets[g] = -(dmin * static_cast<float>(minimum));
  }
}

// 32 bytes hold 64 elements: the first 32 in the low nibbles, the others in the high ones.
void read_k_nibbles(const uint8_t* packed, uint8_t* codes) {
  for (int j = 0; j < 4; ++j) {
    for (int l = 0; l < 32; ++l) {
      codes[j * 64 + l] = low(packed[j * 32 + l]);
      codes[j * 64 + 32 + l] = high(packed[j * 32 + l]);
    }
  }
}

// Q4_K: f16 d, f16 dmin, 12 bytes of scales, 128 bytes of nibbles. w = d * scale * q - dmin * minimum, groups
// of 32.
void q4_k_codes(const uint8_t* block, uint8_t* codes) {
  read_k_nibbles(block + 16, codes);
}

// Q5_K: as Q4_K with 32 bytes of fifth bits after the scales; bit g of byte l belongs to element 32 g + l.
void q5_k_codes(const uint8_t* block, uint8_t* codes) {
  read_k_nibbles(block + 48, codes);
  for (int g = 0; g < 8; ++g) {
    for (int l = 0; l < 32; ++l) {
      uint8_t& code = codes[g * 32 + l];
      code = static_cast<uint8_t>(code | (block[16 + l] >> g & 1) << 4);
    }
  }
}

// Q6_K: 128 bytes of low nibbles, 64 bytes of high two-bit fields, 16 int8 scales, f16 d.
// w = d * scale * (q - 32), in groups of 16.
void q6_k_scales(const uint8_t* block, float* scales, float*) {
  const float d = load_half(block + 208);
  for (int g = 0; g < 16; ++g) scales[g] = d * static_cast<float>(static_cast<int8_t>(block[192 + g]));
}
void q6_k_codes(const uint8_t* block, uint8_t* codes) {
  for (int h = 0; h < 2; ++h) {
    for (int quarter = 0; quarter < 4; ++quarter) {
      const uint8_t* const nibbles = block + h * 64 + quarter % 2 * 32;
      const uint8_t* const fields = block + 128 + h * 32;
      for (int l = 0; l < 32; ++l) {
        const int low_bits = quarter < 2 ? low(nibbles[l]) : high(nibbles[l]);
        const int high_bits = fields[l] >> (2 * quarter) & 3;
        codes[h * 128 + quarter * 32 + l] = static_cast<uint8_t>(low_bits | high_bits << 4);
      }
    }
  }
}

// IQ4_NL and IQ4_XS: a nibble is an index into this table of int8 values (kvalues_iq4nl of ggml), here plus
// 128.
constexpr std::array<uint8_t, 16> kIq4Codes = {128 - 127, 128 - 104, 128 - 83, 128 - 65, 128 - 49, 128 - 35,
                                               128 - 22,  128 - 10,  128 + 1,  128 + 13, 128 + 25, 128 + 38,
                                               128 + 53,  128 + 69,  128 + 89, 128 + 113};

void read_iq4(const uint8_t* packed, uint8_t* codes) {
  for (int j = 0; j < 16; ++j) {
    codes[j] = kIq4Codes[low(packed[j])];
    codes[j + 16] = kIq4Codes[high(packed[j])];
  }
}

// IQ4_NL: f16 d, 16 bytes of nibbles. w = d * table[q].
void iq4_nl_codes(const uint8_t* block, uint8_t* codes) {
  read_iq4(block + 2, codes);
}

// IQ4_XS: f16 d, 16 bits with the high two bits of 8 scales, 4 bytes with their low nibbles, 128 bytes of
// nibbles. w = d * (scale - 32) * table[q], in groups of 32.
void iq4_xs_scales(const uint8_t* block, float* scales, float*) {
  const float d = load_half(block);
  uint16_t high_bits;
  std::memcpy(&high_bits, block + 2, 2);
  for (int g = 0; g < 8; ++g) {
    const int low_bits = g % 2 == 0 ? low(block[4 + g / 2]) : high(block[4 + g / 2]);
    scales[g] = d * static_cast<float>((low_bits | (high_bits >> (2 * g) & 3) << 4) - 32);
  }
}
void iq4_xs_codes(const uint8_t* block, uint8_t* codes) {
  for (int g = 0; g < 8; ++g) read_iq4(block + 8 + g * 16, codes + g * 32);
}

using ScalesOfBlock = void (*)(const uint8_t* block, float* scales, float* offsets);
using CodesOfBlock = void (*)(const uint8_t* block, uint8_t* codes);

// One type, from what reads a block: the loops over a row's blocks are made here, so that each compiles into
// one piece with its body.
template <int kElements, int kBytes, ScalesOfBlock kScales, CodesOfBlock kCodes>
struct Blocks {
  template <bool kOffsets, int kGroups>
  static void scales(const uint8_t* blocks, int64_t count, float* scales, float* offsets) {
    for (int64_t b = 0; b < count; ++b) {
      kScales(blocks + b * kBytes, scales + b * kGroups, kOffsets ? offsets + b * kGroups : nullptr);
    }
  }

  // The magnitudes of floats are ordered as their bits are, with infinity and then NaN above all numbers.
  template <bool kOffsets, int kGroups>
  static MatrixReader::Range range(const uint8_t* blocks, int64_t count) {
    int32_t max_scale[kGroups] = {}, max_offset[kGroups] = {};
    float scales[kGroups], offsets[kGroups] = {};
    const auto widen = [](int32_t& max, float value) {
      max = std::max(max, std::bit_cast<int32_t>(value) & 0x7fffffff);
    };
    for (int64_t b = 0; b < count; ++b) {
      kScales(blocks + b * kBytes, scales, offsets);
      for (int g = 0; g < kGroups; ++g) widen(max_scale[g], scales[g]);
      if (kOffsets) {
        for (int g = 0; g < kGroups; ++g) widen(max_offset[g], offsets[g]);
      }
    }
    return {std::bit_cast<float>(*std::max_element(max_scale, max_scale + kGroups)),
            std::bit_cast<float>(*std::max_element(max_offset, max_offset + kGroups))};
  }

  static void codes(const uint8_t* blocks, int64_t count, uint8_t* codes) {
    for (int64_t b = 0; b < count; ++b) kCodes(blocks + b * kBytes, codes + b * kElements);
  }

  template <int kBits, int kGroupSize>
  static BlockFormat with_zero(int zero_point) {
    constexpr int kGroups = kElements / kGroupSize;
    return {{kBits, kGroupSize, false, zero_point},
            kElements,
            kBytes,
            scales<false, kGroups>,
            range<false, kGroups>,
            codes};
  }
  template <int kBits, int kGroupSize>
  static BlockFormat with_offsets() {
    constexpr int kGroups = kElements / kGroupSize;
    return {{kBits, kGroupSize, true, 0}, kElements, kBytes, scales<true, kGroups>,
            range<true, kGroups>,         codes};
  }
};

}  // namespace

const BlockFormat* find_block_format(uint32_t ggml_type) {
  static const BlockFormat q4_0 = Blocks<32, 18, q4_0_scales, q4_0_codes>::with_zero<4, 32>(8);
  static const BlockFormat q4_1 = Blocks<32, 20, d_m_scales, q4_1_codes>::with_offsets<4, 32>();
  static const BlockFormat q5_0 = Blocks<32, 22, q4_0_scales, q5_0_codes>::with_zero<5, 32>(16);
  static const BlockFormat q5_1 = Blocks<32, 24, d_m_scales, q5_1_codes>::with_offsets<5, 32>();
  static const BlockFormat q8_0 = Blocks<32, 34, q4_0_scales, q8_0_codes>::with_zero<8, 32>(128);
  static const BlockFormat q2_k = Blocks<256, 84, q2_k_scales, q2_k_codes>::with_offsets<4, 16>();
  static const BlockFormat q3_k = Blocks<256, 110, q3_k_scales, q3_k_codes>::with_zero<4, 16>(4);
  static const BlockFormat q4_k = Blocks<256, 144, six_bit_scales, q4_k_codes>::with_offsets<4, 32>();
  static const BlockFormat q5_k = Blocks<256, 176, six_bit_scales, q5_k_codes>::with_offsets<5, 32>();
  static const BlockFormat q6_k = Blocks<256, 210, q6_k_scales, q6_k_codes>::with_zero<6, 16>(32);
  static const BlockFormat iq4_nl = Blocks<32, 18, q4_0_scales, iq4_nl_codes>::with_zero<8, 32>(128);
  static const BlockFormat iq4_xs = Blocks<256, 136, iq4_xs_scales, iq4_xs_codes>::with_zero<8, 32>(128);
  switch (ggml_type) {  // numbers of ggml.h
    case 2:
      return &q4_0;
    case 3:
      return &q4_1;
    case 6:
      return &q5_0;
    case 7:
      return &q5_1;
    case 8:
      return &q8_0;
    case 10:
      return &q2_k;
    case 11:
      return &q3_k;
    case 12:
      return &q4_k;
    case 13:
      return &q5_k;
    case 14:
      return &q6_k;
    case 20:
      return &iq4_nl;
    case 23:
      return &iq4_xs;
    default:
      return nullptr;
  }
}

}  // namespace pagoda::model
