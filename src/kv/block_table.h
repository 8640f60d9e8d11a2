// The blocks of one sequence.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "kv/block_hash.h"
#include "kv/prefix_cache.h"

namespace pagoda::kv {

// Entry i holds tokens 16 i .. 16 i + 15. Made and changed by KvManager; holds references, so it must be
// released there before it goes. Move-only: a copy would hold references that nobody counted (see
// KvManager::fork).
class BlockTable {
 public:
  BlockTable() = default;
  BlockTable(BlockTable&&) noexcept = default;
  BlockTable& operator=(BlockTable&&) noexcept = default;
  BlockTable(const BlockTable&) = delete;
  BlockTable& operator=(const BlockTable&) = delete;

  std::span<const BlockId> blocks() const noexcept { return blocks_; }
  int size() const noexcept { return static_cast<int>(blocks_.size()); }
  bool empty() const noexcept { return blocks_.empty(); }
  // Leading blocks that are findable, thus read-only.
  int num_published() const noexcept { return num_published_; }

 private:
  friend class KvManager;

  std::vector<BlockId> blocks_;
  int num_published_ = 0;
  uint64_t last_node_ = kRootNode;  // node of block num_published_ - 1
  SharedSalt salt_;
  // keys_[0] is the root, keys_[i + 1] names block i. A function of salt and tokens: survives release().
  std::vector<BlockKey> keys_;
};

}  // namespace pagoda::kv
