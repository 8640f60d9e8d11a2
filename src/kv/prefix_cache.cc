#include "kv/prefix_cache.h"

#include <algorithm>
#include <bit>
#include <unordered_set>

#include "base/check.h"
#include "tensor/kv_storage.h"

namespace pagoda::kv {

PrefixCache::PrefixCache(int num_blocks)
    : entries_(static_cast<size_t>(num_blocks)),
      tokens_(static_cast<size_t>(num_blocks) * kKvBlockTokens),
      buckets_(std::bit_ceil(static_cast<size_t>(num_blocks) * 2)) {}

std::span<const TokenId> PrefixCache::tokens_of(BlockId block) const {
  return std::span(tokens_).subspan(static_cast<size_t>(block.value) * kKvBlockTokens, kKvBlockTokens);
}

bool PrefixCache::holds(BlockId block, const BlockContent& content) const {
  const Entry& e = entry(block);
  if (e.key != content.key || e.parent != content.parent) return false;
  if (!std::ranges::equal(tokens_of(block), content.tokens)) return false;
  return content.parent != kRootNode || e.salt == *content.salt || *e.salt == **content.salt;
}

std::optional<BlockId> PrefixCache::find(const BlockContent& content) const {
  for (BlockId block = buckets_[bucket_of(content.key)]; block != BlockId{}; block = entry(block).next) {
    if (holds(block, content)) return block;
  }
  return std::nullopt;
}

uint64_t PrefixCache::insert(BlockId block, const BlockContent& content) {
  PAGODA_CHECK(!contains(block), "block {} is findable already", block.value);
  PAGODA_CHECK(content.tokens.size() == kKvBlockTokens, "{} tokens", content.tokens.size());
  BlockId& head = buckets_[bucket_of(content.key)];
  Entry& e = entry(block);
  e = Entry{.key = content.key,
            .node = next_node_++,
            .parent = content.parent,
            .salt = content.parent == kRootNode ? *content.salt : nullptr,
            .next = head};
  head = block;
  std::ranges::copy(content.tokens, tokens_.begin() + std::ptrdiff_t{block.value} * kKvBlockTokens);
  ++size_;
  return e.node;
}

void PrefixCache::erase(BlockId block) {
  PAGODA_CHECK(contains(block), "block {} is not findable", block.value);
  BlockId* link = &buckets_[bucket_of(entry(block).key)];
  while (*link != block) link = &entry(*link).next;
  *link = entry(block).next;
  entry(block) = Entry{};
  --size_;
}

void PrefixCache::check_integrity() const {
  std::unordered_set<uint64_t> nodes{kRootNode};
  for (const Entry& e : entries_) nodes.insert(e.node);
  int listed = 0;
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    for (BlockId block = buckets_[bucket]; block != BlockId{}; block = entry(block).next) {
      PAGODA_CHECK(++listed <= size_, "{} entries listed, {} counted", listed, size_);
      PAGODA_CHECK(contains(block) && bucket_of(entry(block).key) == bucket, "block {}", block.value);
      PAGODA_CHECK(nodes.contains(entry(block).parent), "the parent of block {} is gone", block.value);
      PAGODA_CHECK((entry(block).salt != nullptr) == (entry(block).parent == kRootNode), "block {}",
                   block.value);
    }
  }
  PAGODA_CHECK(listed == size_, "{} entries listed, {} counted", listed, size_);
}

}  // namespace pagoda::kv
