// Which block is used, cached or free. Knows counts and lists, not contents.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace pagoda::kv {

// Each block is in one of three states:
//   used    held by at least one sequence (refs > 0)
//   cached  held by nobody, but its content is still findable; in the least-recently-used list
//   free    held by nobody, content meaningless
// All operations take constant time and allocate nothing.
class BlockPool {
 public:
  explicit BlockPool(int num_blocks);

  int total() const noexcept { return static_cast<int>(blocks_.size()); }
  int num_free() const noexcept { return num_free_; }
  int num_cached() const noexcept { return num_cached_; }
  int num_used() const noexcept { return total() - num_free_ - num_cached_; }
  // The most that were used at the same time since the start.
  int most_used() const noexcept { return most_used_; }
  // Blocks that have been used at some time: the first ones, as new blocks are taken in ascending order.
  int num_touched() const noexcept { return num_touched_; }
  int refs(BlockId block) const { return at(block).refs; }

  // A free block with one reference. Precondition: num_free() > 0.
  BlockId take_free();
  // The cached block released longest ago, now with one reference; the caller makes it unfindable.
  // Precondition: num_cached() > 0.
  BlockId take_oldest_cached();
  // One more reference to a used or cached block.
  void retain(BlockId block);
  // One reference less; the last one makes the block cached when it is `findable`, free otherwise.
  void drop(BlockId block, bool findable);

  // Lists and counts agree, and each block is in the list of its state exactly once. PAGODA_CHECKs.
  void check_integrity() const;

 private:
  enum class State : uint8_t { kUsed, kCached, kFree };
  struct Block {
    int32_t refs = 0;
    State state = State::kFree;
    BlockId prev{}, next{};  // neighbours in the list of its state; free blocks use `next` only
  };

  Block& at(BlockId block);
  const Block& at(BlockId block) const;
  void unlink_cached(BlockId block);

  std::vector<Block> blocks_;
  BlockId free_head_;  // a stack: the block given back last is warm in the CPU's caches
  BlockId oldest_cached_, newest_cached_;
  int num_free_ = 0, num_cached_ = 0;
  int most_used_ = 0, num_touched_ = 0;
};

}  // namespace pagoda::kv
