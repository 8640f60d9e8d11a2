// Sequences of a flat batch as attention sees them.
#pragma once

#include <cstdint>
#include <span>

#include "base/ids.h"

namespace pagoda::kernels {

inline constexpr int kKvPartition = 256;  // tokens; 16 blocks: scores of 8 rows stay in L1

// The tokens of one sequence in a flat batch.
struct AttentionSequence {
  int64_t first_token = 0;               // row of its first new token in the batch
  int64_t num_tokens = 0;                // new tokens in this step
  int64_t first_position = 0;            // position of the first new token = tokens already in the cache
  std::span<const BlockId> block_table;  // covers first_position + num_tokens tokens
};

}  // namespace pagoda::kernels
