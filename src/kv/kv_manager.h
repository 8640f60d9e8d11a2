// The KV cache as the scheduler sees it: block tables that grow, fork, are found again and are given back.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/ids.h"
#include "kv/block_hash.h"
#include "kv/block_pool.h"
#include "kv/block_table.h"
#include "kv/prefix_cache.h"
#include "tensor/kv_storage.h"

namespace pagoda::kv {

struct KvOptions {
  bool enable_prefix_caching = true;
  int hash_bits = 128;  // fewer only in tests, to force collisions
};

// Blocks that hold `num_tokens` tokens.
inline int64_t blocks_for(int64_t num_tokens) {
  return (num_tokens + kKvBlockTokens - 1) / kKvBlockTokens;
}

class KvManager {
 public:
  // `storage` must outlive the manager; its blocks belong to the manager. The secret of the hash is drawn
  // here.
  KvManager(KvStorage& storage, const KvOptions& options);

  // An empty table. Findable blocks are shared among tables with equal salts only. Up to `expected_tokens` it
  // grows without allocation.
  BlockTable make_table(const std::string& salt, int64_t expected_tokens = 0) const;

  // Locks the longest findable run of leading blocks of `tokens`, but no more than fit in `max_tokens`, into
  // the empty table. Returns the number of tokens found.
  int64_t match(BlockTable& table, std::span<const TokenId> tokens, int64_t max_tokens);

  // Makes the slots of positions [first, end) writable: appends blocks, and copies the block of `first` when
  // a fork shares it. False, and nothing changed, when fewer blocks are available than needed. Precondition:
  // the positions before `first` are filled, and none from `first` on is published.
  [[nodiscard]] bool reserve(BlockTable& table, int64_t first, int64_t end);

  // Gives back the blocks behind the first `num_tokens` tokens. Precondition: none of them is published.
  void shrink(BlockTable& table, int64_t num_tokens);

  // Another table over the same blocks; the last, partly filled one is copied by whoever writes first.
  BlockTable fork(const BlockTable& table);

  // Makes the full blocks of the first `num_filled` tokens findable; to be called after the step that filled
  // them. A block whose content is findable elsewhere is replaced by that one and given back.
  void publish(BlockTable& table, std::span<const TokenId> tokens, int64_t num_filled);

  // Gives all blocks back; findable ones stay cached until evicted. The table is empty and reusable for the
  // same tokens.
  void release(BlockTable& table);

  // The key of full block `index` of the table's `tokens`.
  BlockKey key(BlockTable& table, std::span<const TokenId> tokens, int index) const;

  bool prefix_caching() const noexcept { return options_.enable_prefix_caching; }
  const BlockPool& pool() const noexcept { return pool_; }
  // Blocks that reserve() can give: free ones, then cached ones, which are evicted.
  int num_available() const noexcept { return pool_.num_free() + pool_.num_cached(); }

  // References equal the uses in `tables` (all tables that exist), published prefixes are findable, and the
  // pool and the prefix cache are consistent. PAGODA_CHECKs.
  void check_integrity(std::span<const BlockTable* const> tables) const;

 private:
  BlockId allocate();
  void drop(BlockId block) { pool_.drop(block, cache_.contains(block)); }
  BlockContent content(BlockTable& table, std::span<const TokenId> tokens, int index) const;
  void check_table(const BlockTable& table) const;

  KvStorage& storage_;
  KvOptions options_;
  BlockHasher hasher_;
  BlockPool pool_;
  PrefixCache cache_;
};

}  // namespace pagoda::kv
