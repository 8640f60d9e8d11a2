// How much memory goes where, from limits and flags: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "tensor/kv_storage.h"

namespace pagoda::cli {

// "4096", "32k" (x 1000), "32K" (x 1024), likewise m/M and g/G; vLLM's human-readable integers.
// kInvalidArgument naming the flag.
Result<int64_t> parse_count(std::string_view text, std::string_view flag);

// "1.5 GiB", "97 MiB".
std::string format_bytes(uint64_t bytes);

struct MemoryRequest {
  uint64_t memory_limit = 0;     // cgroup or machine
  double memory_fraction = 0.9;  // --gpu-memory-utilization
  uint64_t weight_bytes = 0;
  uint64_t scratch_bytes = 0;
  std::optional<uint64_t> kv_bytes;  // --kv-cache-memory-bytes
  int64_t max_model_len = 0;
  int max_num_seqs = 0;
  KvShape kv_shape;
};

struct MemoryPlan {
  int num_blocks = 0;
  uint64_t kv_bytes = 0;
  int64_t kv_tokens = 0;
};

// The KV pool: the flag's bytes, else what the memory fraction leaves after weights and scratch, at most 4
// GiB (cached prefixes fill the whole pool in time, and a server on a shared machine should not take it all
// unasked) and at most what max_num_seqs sequences of max_model_len need. kInvalidArgument when not even one
// sequence of max_model_len fits: it names both sizes and the flags to change.
Result<MemoryPlan> plan_memory(const MemoryRequest& request);

}  // namespace pagoda::cli
