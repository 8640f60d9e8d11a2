// What submit() refuses because no step could ever run it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "engine/engine.h"

namespace pagoda::engine {

struct AdmissionLimits {
  int64_t max_model_len = 0;
  int64_t vocab_size = 0;
  int max_num_seqs = 0;
  int num_blocks = 0;
  size_t block_bytes = 0;
};

// Checks lengths, ids and that one choice alone fits the KV pool: choices of one request can run one after
// the other.
Result<void> check_request(const EngineRequest& request, const AdmissionLimits& limits);

}  // namespace pagoda::engine
