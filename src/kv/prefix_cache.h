// Finds the block that holds given tokens after a given parent block.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "kv/block_hash.h"

namespace pagoda::kv {

using SharedSalt = std::shared_ptr<const std::string>;

// The parent of a first block. Its children are told apart by their salt.
inline constexpr uint64_t kRootNode = 0;

// What a full block is about. `key` only finds the bucket; the rest is compared, so that a hash collision is
// harmless.
struct BlockContent {
  BlockKey key{};
  uint64_t parent = kRootNode;        // node of the block before
  std::span<const TokenId> tokens{};  // kKvBlockTokens
  const SharedSalt* salt = nullptr;   // never null
};

// A hash table over the pool's blocks: at most one entry per block, chained inside the entries, no allocation
// after the constructor. A node number is given once and never again, so a stale parent can't match.
class PrefixCache {
 public:
  explicit PrefixCache(int num_blocks);

  std::optional<BlockId> find(const BlockContent& content) const;
  // Makes a block findable and returns its node. Preconditions: `block` is not findable, and nothing equal
  // is.
  uint64_t insert(BlockId block, const BlockContent& content);
  void erase(BlockId block);

  bool contains(BlockId block) const { return entry(block).node != kRootNode; }
  uint64_t node(BlockId block) const { return entry(block).node; }
  int size() const noexcept { return size_; }

  // Every entry is in the bucket of its key once, and its parent is findable. PAGODA_CHECKs.
  void check_integrity() const;

 private:
  struct Entry {
    BlockKey key{};
    uint64_t node = kRootNode;  // kRootNode: not findable
    uint64_t parent = kRootNode;
    SharedSalt salt{};  // first blocks only
    BlockId next{};     // in the same bucket
  };

  Entry& entry(BlockId block) { return entries_[static_cast<size_t>(block.value)]; }
  const Entry& entry(BlockId block) const { return entries_[static_cast<size_t>(block.value)]; }
  size_t bucket_of(BlockKey key) const { return key.lo & (buckets_.size() - 1); }
  std::span<const TokenId> tokens_of(BlockId block) const;
  bool holds(BlockId block, const BlockContent& content) const;

  std::vector<Entry> entries_;    // [num_blocks]
  std::vector<TokenId> tokens_;   // [num_blocks][kKvBlockTokens]
  std::vector<BlockId> buckets_;  // a power of two
  uint64_t next_node_ = kRootNode + 1;
  int size_ = 0;
};

}  // namespace pagoda::kv
