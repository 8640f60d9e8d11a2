// The quantised block types of GGUF, each read as codes, scales and offsets: w = scale * (code - zero_point),
// or scale * code + offset. Every scale and every scale * code is exact in float, so that one rounding at
// most (adding the offset) stands between a block and its value, as in ggml's own dequantisation. Source:
// ggml-common.h, ggml-quants.c.
#pragma once

#include <cstdint>

#include "model/tensor_source.h"

namespace pagoda::model {

struct BlockFormat {
  CodeScheme scheme;
  int block_elements = 32;
  int block_bytes = 0;
  // The scales (and offsets where the scheme has them; else null will do) of `count` blocks in a row,
  // block_elements / group_size of each.
  void (*read_scales)(const uint8_t* blocks, int64_t count, float* scales, float* offsets) = nullptr;
  // The largest magnitudes among them; infinite or NaN when one of them is.
  MatrixReader::Range (*range)(const uint8_t* blocks, int64_t count) = nullptr;
  // The codes of `count` blocks, one byte each.
  void (*read_codes)(const uint8_t* blocks, int64_t count, uint8_t* codes) = nullptr;

  int groups_per_block() const { return block_elements / scheme.group_size; }
};

// By ggml type number; null for types that hold plain numbers or that can't be run.
const BlockFormat* find_block_format(uint32_t ggml_type);

}  // namespace pagoda::model
