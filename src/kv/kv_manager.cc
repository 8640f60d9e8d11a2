#include "kv/kv_manager.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/rng.h"

namespace pagoda::kv {

KvManager::KvManager(KvStorage& storage, const KvOptions& options)
    : storage_(storage),
      options_(options),
      hasher_(BlockKey{random_seed(), random_seed()}, options.hash_bits),
      pool_(storage.num_blocks()),
      cache_(storage.num_blocks()) {}

BlockTable KvManager::make_table(const std::string& salt, int64_t expected_tokens) const {
  BlockTable table;
  const auto expected_blocks = static_cast<size_t>(blocks_for(expected_tokens));
  table.blocks_.reserve(expected_blocks);
  table.keys_.reserve(expected_blocks + 1);  // with the root
  table.salt_ = std::make_shared<const std::string>(salt);
  table.keys_.push_back(hasher_.root(salt));
  return table;
}

BlockId KvManager::allocate() {
  if (pool_.num_free() > 0) return pool_.take_free();
  const BlockId block = pool_.take_oldest_cached();
  cache_.erase(block);
  return block;
}

BlockKey KvManager::key(BlockTable& table, std::span<const TokenId> tokens, int index) const {
  PAGODA_CHECK(!table.keys_.empty(), "a table that make_table() did not make");
  const auto wanted = static_cast<size_t>(index) + 1;
  while (table.keys_.size() <= wanted) {
    const size_t block = table.keys_.size() - 1;
    const auto block_tokens = tokens.subspan(block * kKvBlockTokens, kKvBlockTokens);
    table.keys_.push_back(hasher_.chain(table.keys_.back(), block_tokens));
  }
  return table.keys_[wanted];
}

BlockContent KvManager::content(BlockTable& table, std::span<const TokenId> tokens, int index) const {
  return {.key = key(table, tokens, index),
          .parent = table.last_node_,
          .tokens = tokens.subspan(static_cast<size_t>(index) * kKvBlockTokens, kKvBlockTokens),
          .salt = &table.salt_};
}

int64_t KvManager::match(BlockTable& table, std::span<const TokenId> tokens, int64_t max_tokens) {
  PAGODA_CHECK(table.empty(), "the table holds {} blocks", table.size());
  if (!options_.enable_prefix_caching) return 0;
  const auto limit = std::min(static_cast<int64_t>(tokens.size()), max_tokens) / kKvBlockTokens;
  for (int index = 0; index < limit; ++index) {
    const auto found = cache_.find(content(table, tokens, index));
    if (!found) break;
    pool_.retain(*found);
    table.blocks_.push_back(*found);
    table.last_node_ = cache_.node(*found);
    ++table.num_published_;
  }
  return int64_t{table.size()} * kKvBlockTokens;
}

bool KvManager::reserve(BlockTable& table, int64_t first, int64_t end) {
  const int64_t first_block = first / kKvBlockTokens;
  PAGODA_CHECK(first_block >= table.num_published_ && first_block <= table.size(),
               "position {}, {} of {} blocks published", first, table.num_published_, table.size());
  const bool copy =
      first_block < table.size() && pool_.refs(table.blocks_[static_cast<size_t>(first_block)]) > 1;
  const int64_t appended = std::max<int64_t>(0, blocks_for(end) - table.size());
  if (appended + (copy ? 1 : 0) > num_available()) return false;
  if (copy) {
    BlockId& entry = table.blocks_[static_cast<size_t>(first_block)];
    const BlockId own = allocate();
    storage_.copy_block(entry, own);
    drop(entry);
    entry = own;
  }
  for (int64_t i = 0; i < appended; ++i) table.blocks_.push_back(allocate());
  return true;
}

void KvManager::shrink(BlockTable& table, int64_t num_tokens) {
  PAGODA_CHECK(blocks_for(num_tokens) >= table.num_published_, "{} tokens, {} blocks published", num_tokens,
               table.num_published_);
  for (; table.size() > blocks_for(num_tokens); table.blocks_.pop_back()) drop(table.blocks_.back());
}

BlockTable KvManager::fork(const BlockTable& table) {
  BlockTable copy;
  copy.blocks_.reserve(table.blocks_.capacity());
  copy.keys_.reserve(table.keys_.capacity());
  copy.blocks_ = table.blocks_;
  copy.num_published_ = table.num_published_;
  copy.last_node_ = table.last_node_;
  copy.salt_ = table.salt_;
  copy.keys_ = table.keys_;
  for (const BlockId block : copy.blocks_) pool_.retain(block);
  return copy;
}

void KvManager::publish(BlockTable& table, std::span<const TokenId> tokens, int64_t num_filled) {
  if (!options_.enable_prefix_caching) return;
  for (int index = table.num_published_; index < num_filled / kKvBlockTokens; ++index) {
    BlockId& block = table.blocks_[static_cast<size_t>(index)];
    const BlockContent what = content(table, tokens, index);
    if (const auto found = cache_.find(what)) {
      pool_.retain(*found);
      drop(block);
      block = *found;
      table.last_node_ = cache_.node(block);
    } else {
      table.last_node_ = cache_.insert(block, what);
    }
    ++table.num_published_;
  }
}

void KvManager::release(BlockTable& table) {
  // The last block first, so that eviction never takes a parent before its child.
  for (auto block = table.blocks_.rbegin(); block != table.blocks_.rend(); ++block) drop(*block);
  table.blocks_.clear();
  table.num_published_ = 0;
  table.last_node_ = kRootNode;
}

void KvManager::check_table(const BlockTable& table) const {
  PAGODA_CHECK(table.num_published_ <= table.size());
  for (int i = 0; i < table.size(); ++i) {
    const bool findable = cache_.contains(table.blocks_[static_cast<size_t>(i)]);
    PAGODA_CHECK(findable == (i < table.num_published_), "entry {} of {}, {} published", i, table.size(),
                 table.num_published_);
  }
  const uint64_t last = table.num_published_ == 0
                            ? kRootNode
                            : cache_.node(table.blocks_[static_cast<size_t>(table.num_published_ - 1)]);
  PAGODA_CHECK(table.last_node_ == last, "node {} instead of {}", table.last_node_, last);
}

void KvManager::check_integrity(std::span<const BlockTable* const> tables) const {
  pool_.check_integrity();
  cache_.check_integrity();
  std::vector<int> uses(static_cast<size_t>(pool_.total()));
  for (const BlockTable* table : tables) {
    check_table(*table);
    for (const BlockId block : table->blocks_) ++uses[static_cast<size_t>(block.value)];
  }
  int findable_unused = 0;
  for (int i = 0; i < pool_.total(); ++i) {
    const BlockId block{i};
    PAGODA_CHECK(pool_.refs(block) == uses[static_cast<size_t>(i)], "block {}: {} references, {} uses", i,
                 pool_.refs(block), uses[static_cast<size_t>(i)]);
    if (pool_.refs(block) == 0 && cache_.contains(block)) ++findable_unused;
  }
  PAGODA_CHECK(findable_unused == pool_.num_cached(), "{} blocks findable and unused, {} cached",
               findable_unused, pool_.num_cached());
}

}  // namespace pagoda::kv
