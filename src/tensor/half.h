// Conversions between float and the two 16-bit formats, in plain C++ (no ISA flags): loaders and tests use
// them.
#pragma once

#include <bit>
#include <cstdint>

namespace pagoda {

inline float bf16_to_f32(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

// Round to nearest even; NaN stays NaN (quiet).
inline uint16_t f32_to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// IEEE 754 binary16, subnormals included.
float f16_to_f32(uint16_t bits);
// Round to nearest even; overflow becomes infinity.
uint16_t f32_to_f16(float value);

}  // namespace pagoda
