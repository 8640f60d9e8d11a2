// Blocks of 256 values, in groups with scales of few bits.
//
// The format says how a block is read, not how its codes are found. Here: a group's scale (and minimum) by
// least squares, beginning from several widths of its grid and going back and forth between codes and scale;
// then the codes of the scales and the block's own two factors, each by the error of the values.
#pragma once

#include <cstdint>

namespace pagoda::quantize {

// Little-endian float16.
void store_half(uint8_t* out, float value);

// 256 values -> 144 bytes: w = d * scale * q - dmin * minimum, 8 groups of 32, all codes unsigned: 6 bits for
// scales and minima, 4 for values.
void encode_q4_k(const float* values, uint8_t* out);

// 256 values -> 210 bytes: w = d * scale * (q - 32), 16 groups of 16, scales of 8 bits, codes of 6.
void encode_q6_k(const float* values, uint8_t* out);

}  // namespace pagoda::quantize
