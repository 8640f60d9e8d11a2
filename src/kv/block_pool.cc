#include "kv/block_pool.h"

#include <algorithm>

#include "base/check.h"

namespace pagoda::kv {
namespace {
constexpr BlockId kNone{};
}  // namespace

BlockPool::BlockPool(int num_blocks) {
  PAGODA_CHECK(num_blocks > 0, "a pool of {} blocks", num_blocks);
  blocks_.resize(static_cast<size_t>(num_blocks));
  for (int i = num_blocks - 1; i >= 0; --i) {  // block 0 on top of the stack
    at(BlockId{i}).next = free_head_;
    free_head_ = BlockId{i};
  }
  num_free_ = num_blocks;
}

BlockPool::Block& BlockPool::at(BlockId block) {
  PAGODA_CHECK(block.value >= 0 && block.value < total(), "block {} of {}", block.value, total());
  return blocks_[static_cast<size_t>(block.value)];
}

const BlockPool::Block& BlockPool::at(BlockId block) const {
  return const_cast<BlockPool*>(this)->at(block);
}

BlockId BlockPool::take_free() {
  PAGODA_CHECK(num_free_ > 0);
  const BlockId block = free_head_;
  Block& entry = at(block);
  free_head_ = entry.next;
  entry = Block{.refs = 1, .state = State::kUsed};
  --num_free_;
  most_used_ = std::max(most_used_, num_used());
  num_touched_ = std::max(num_touched_, total() - num_free_);
  return block;
}

BlockId BlockPool::take_oldest_cached() {
  PAGODA_CHECK(num_cached_ > 0);
  const BlockId block = oldest_cached_;
  retain(block);
  return block;
}

void BlockPool::retain(BlockId block) {
  Block& entry = at(block);
  PAGODA_CHECK(entry.state != State::kFree, "block {} is free", block.value);
  if (entry.state == State::kCached) unlink_cached(block);
  ++entry.refs;
}

void BlockPool::unlink_cached(BlockId block) {
  Block& entry = at(block);
  (entry.prev == kNone ? oldest_cached_ : at(entry.prev).next) = entry.next;
  (entry.next == kNone ? newest_cached_ : at(entry.next).prev) = entry.prev;
  entry = Block{.refs = 0, .state = State::kUsed};
  --num_cached_;
  most_used_ = std::max(most_used_, num_used());
}

void BlockPool::drop(BlockId block, bool findable) {
  Block& entry = at(block);
  PAGODA_CHECK(entry.refs > 0, "block {} has no reference to drop", block.value);
  if (--entry.refs > 0) return;
  if (!findable) {
    entry = Block{.next = free_head_};
    free_head_ = block;
    ++num_free_;
    return;
  }
  entry = Block{.state = State::kCached, .prev = newest_cached_};
  (newest_cached_ == kNone ? oldest_cached_ : at(newest_cached_).next) = block;
  newest_cached_ = block;
  ++num_cached_;
}

void BlockPool::check_integrity() const {
  int listed_free = 0, listed_cached = 0, used = 0;
  for (BlockId block = free_head_; block != kNone; block = at(block).next) {
    PAGODA_CHECK(at(block).state == State::kFree && at(block).refs == 0, "block {}", block.value);
    PAGODA_CHECK(++listed_free <= total(), "the free list is a cycle");
  }
  BlockId prev;
  for (BlockId block = oldest_cached_; block != kNone; prev = block, block = at(block).next) {
    PAGODA_CHECK(at(block).state == State::kCached && at(block).refs == 0, "block {}", block.value);
    PAGODA_CHECK(at(block).prev == prev, "block {}", block.value);
    PAGODA_CHECK(++listed_cached <= total(), "the list of cached blocks is a cycle");
  }
  PAGODA_CHECK(prev == newest_cached_);
  for (const Block& block : blocks_) {
    if (block.state != State::kUsed) continue;
    PAGODA_CHECK(block.refs > 0);
    ++used;
  }
  // Every list holds blocks of its own state only, so these three sums place each block exactly once.
  PAGODA_CHECK(listed_free == num_free_, "{} listed, {} counted", listed_free, num_free_);
  PAGODA_CHECK(listed_cached == num_cached_, "{} listed, {} counted", listed_cached, num_cached_);
  PAGODA_CHECK(used == num_used(), "{} used, {} counted", used, num_used());
}

}  // namespace pagoda::kv
