// How the work of an operation is cut into the chunks that threads take from the pool's counter.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/thread_pool.h"

namespace pagoda::kernels {

// Below this, waking another thread costs more than it brings.
inline constexpr double kOneChunkNs = 4000;
// Longer chunks would let a thread that lost its CPU hold back too much.
inline constexpr double kLongestChunkNs = 50000;

// Equal chunks for `items` pieces of together `total_ns`: long enough that taking one from the counter (about
// 100 ns) is noise, and four per thread so that the ends meet. For passes over rows.
inline int chunk_count(double total_ns, int64_t items, int num_threads) {
  if (num_threads == 1 || total_ns < kOneChunkNs) return 1;
  constexpr double kShortestNs = 4000;
  const double chunk_ns = std::clamp(total_ns / (4.0 * num_threads), kShortestNs, kLongestChunkNs);
  const double chunks = std::clamp(total_ns / chunk_ns, 1.0, 1e6);
  return static_cast<int>(std::min(items, static_cast<int64_t>(chunks + 0.5)));
}

// Chunks that shrink, for matrix products: each batch of one chunk per thread takes half of what is left, so
// that all threads end within one small chunk of each other even where the panels are few. Equal chunks leave
// a thread idle for up to a whole chunk when their number is odd: a third of SmolLM2's QKV products.
// Factoring: Hummel, Schonberg and Flynn 1992. Computes each range in a few steps and stores nothing.
class ShrinkingChunks {
 public:
  // `items` >= 1 pieces that take `total_ns` together.
  ShrinkingChunks(double total_ns, int64_t items, int num_threads)
      : items_(items), threads_(num_threads == 1 || total_ns < kOneChunkNs ? 1 : num_threads) {
    if (threads_ == 1) {
      shortest_ = longest_ = items;
      return;
    }
    constexpr double kShortestNs = 1500;
    const double item_ns = total_ns / static_cast<double>(items);
    shortest_ = std::clamp<int64_t>(static_cast<int64_t>(kShortestNs / item_ns), 1, items);
    longest_ = std::clamp<int64_t>(static_cast<int64_t>(kLongestChunkNs / item_ns), shortest_, items);
    // While more than two such batches are left, every batch is of the longest chunks.
    const int64_t batch = longest_ * threads_;
    full_batches_ = std::max<int64_t>(0, (items - batch - 1) / batch);
  }

  int count() const {
    int64_t chunks = full_batches_ * threads_;
    for (int64_t left = items_ - chunks * longest_; left > 0;) {
      const int64_t size = size_of(left);
      const int64_t taken = std::min<int64_t>(threads_, (left + size - 1) / size);
      chunks += taken;
      left -= taken * size;
    }
    return static_cast<int>(chunks);
  }

  // 0 <= chunk < count().
  ChunkRange range(int chunk) const {
    const int64_t full = std::min<int64_t>(full_batches_, chunk / threads_);
    int64_t begin = full * threads_ * longest_;
    int64_t place = chunk - full * threads_;
    int64_t size = full < full_batches_ ? longest_ : size_of(items_ - begin);
    for (; place >= threads_; place -= threads_) {
      begin += threads_ * size;
      size = size_of(items_ - begin);
    }
    begin += place * size;
    return {begin, std::min(begin + size, items_)};
  }

 private:
  // Of the chunks of a batch before which `left` items are left.
  int64_t size_of(int64_t left) const {
    return std::clamp((left + 2 * threads_ - 1) / (2 * threads_), shortest_, longest_);
  }

  int64_t items_, threads_;
  int64_t shortest_ = 1, longest_ = 1;
  int64_t full_batches_ = 0;
};

}  // namespace pagoda::kernels
