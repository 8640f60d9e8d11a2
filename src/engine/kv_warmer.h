// Gets the pages of KV blocks from the system before the engine needs them.
#pragma once

#include <atomic>
#include <cstddef>
#include <thread>

#include "tensor/kv_storage.h"

namespace pagoda::engine {

// Memory is taken from the system when it is first touched, and zeroing a page there costs up to milliseconds
// per megabyte on virtual machines: a long prompt spent a fifth of its time there. While the engine has
// nothing to do, a thread gets as much beyond the blocks that have been in use as the busiest moment so far
// used, so that the next one like it finds memory, and at least kLeastAhead. Blocks are used for the first
// time in ascending order (kv::BlockPool).
class KvWarmer {
 public:
  static constexpr size_t kLeastAhead = size_t{128} << 20;

  // `storage` must outlive the warmer and stay where it is. Starts at once, from the first block.
  explicit KvWarmer(KvStorage& storage);
  ~KvWarmer();
  KvWarmer(const KvWarmer&) = delete;
  KvWarmer& operator=(const KvWarmer&) = delete;

  // The first `touched` blocks have been in use at some time, `most_used` at the same time. Called by the
  // engine thread before it sleeps.
  void reached(int touched, int most_used) noexcept;

 private:
  void run();
  KvStorage& storage_;
  std::atomic<size_t> wanted_{0};  // bytes from the start of the storage
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace pagoda::engine
