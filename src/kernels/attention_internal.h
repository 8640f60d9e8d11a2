// How the work area of one thread is laid out, and how the (token, head) rows of one work item are numbered.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/attention.h"
#include "kernels/bodies.h"
#include "tensor/packed_weight.h"

namespace pagoda::kernels {

static_assert(kAttentionPartition == kKvPartition && kAttentionBlockTokens == kKvBlockTokens);

// Rows of one work item: enough to reuse K and V of a partition from the second-level cache, few enough that
// an item is a chunk of 50 us or so at short contexts.
inline constexpr int kItemRows = 64;
inline constexpr int kValueLanes = 32;  // value rows are padded to this many floats
// Behind a value row that is kept for later: maximum, sum, and the rest of the cache line.
inline constexpr int kStateFloats = 16;

inline int64_t value_stride(int head_dim) {
  return round_up(head_dim, kValueLanes);
}

// Pointers into one worker's area.
struct AttentionArea {
  uint8_t* q;         // [max_rows][head_dim], see AttentionTile
  float* q_scale;     // [max_rows]
  float* acc;         // [max_rows][value_stride]
  float* max;         // [max_rows]
  float* sum;         // [max_rows]
  float* values;      // [kAttentionRows][value_stride]
  float* scores;      // [kAttentionRows][kAttentionPartition]
  uint16_t* weights;  // [kAttentionRows][kAttentionPartition]
};

// Fills `area` from `base` (which may be null to learn the size) and returns the bytes it takes.
inline size_t lay_out_area(uint8_t* base, int max_rows, int head_dim, AttentionArea& area) {
  size_t used = 0;
  const auto take = [&](size_t bytes) {
    uint8_t* const at = base == nullptr ? nullptr : base + used;
    used += (bytes + 63) / 64 * 64;
    return at;
  };
  const auto rows = static_cast<size_t>(max_rows), stride = static_cast<size_t>(value_stride(head_dim));
  constexpr size_t kTileScores = size_t{kAttentionRows} * kAttentionPartition;
  area.q = take(rows * static_cast<size_t>(head_dim) * sizeof(float));
  area.q_scale = reinterpret_cast<float*>(take(rows * sizeof(float)));
  area.acc = reinterpret_cast<float*>(take(rows * stride * sizeof(float)));
  area.max = reinterpret_cast<float*>(take(rows * sizeof(float)));
  area.sum = reinterpret_cast<float*>(take(rows * sizeof(float)));
  area.values = reinterpret_cast<float*>(take(kAttentionRows * stride * sizeof(float)));
  area.scores = reinterpret_cast<float*>(take(kTileScores * sizeof(float)));
  area.weights = reinterpret_cast<uint16_t*>(take(kTileScores * sizeof(uint16_t)));
  return used;
}

}  // namespace pagoda::kernels
