// A KV storage whose slots say which token at which position was written last, so that tests can read back
// what a sequence would attend to.
#pragma once

#include <bit>
#include <optional>
#include <span>
#include <vector>

#include "kv/kv_manager.h"

namespace pagoda::kv {

inline KvStorage make_test_storage(int num_blocks) {
  return KvStorage({.num_layers = 1, .num_kv_heads = 1, .head_dim = 2, .dtype = DType::kF32}, num_blocks);
}

inline float* test_slot(KvStorage& storage, const BlockTable& table, int64_t position) {
  const BlockId block = table.blocks()[static_cast<size_t>(position / kKvBlockTokens)];
  return reinterpret_cast<float*>(storage.layer(0).v(block, 0)) + position % kKvBlockTokens * 2;
}

inline void write_tokens(KvStorage& storage, const BlockTable& table, std::span<const TokenId> tokens,
                         int64_t first) {
  for (auto position = first; position < static_cast<int64_t>(tokens.size()); ++position) {
    float* slot = test_slot(storage, table, position);
    slot[0] = static_cast<float>(tokens[static_cast<size_t>(position)].value);
    slot[1] = static_cast<float>(position);
  }
}

// The first position whose slot does not hold its token.
inline std::optional<int64_t> first_wrong_slot(KvStorage& storage, const BlockTable& table,
                                               std::span<const TokenId> tokens) {
  for (int64_t position = 0; position < static_cast<int64_t>(tokens.size()); ++position) {
    const float* slot = test_slot(storage, table, position);
    const auto token = static_cast<float>(tokens[static_cast<size_t>(position)].value);
    if (slot[0] != token || slot[1] != static_cast<float>(position)) return position;
  }
  return std::nullopt;
}

}  // namespace pagoda::kv
