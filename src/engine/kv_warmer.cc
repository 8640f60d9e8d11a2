#include "engine/kv_warmer.h"

#include <algorithm>

namespace pagoda::engine {
namespace {

constexpr size_t kPiece = size_t{2} << 20;  // one huge page

size_t rounded_end(size_t bytes, const KvStorage& storage) {
  return std::min((bytes + kPiece - 1) / kPiece * kPiece, storage.bytes());
}

}  // namespace

KvWarmer::KvWarmer(KvStorage& storage) : storage_(storage) {
  wanted_ = rounded_end(kLeastAhead, storage_);
  thread_ = std::thread([this] { run(); });
}

KvWarmer::~KvWarmer() {
  stop_.store(true);
  wanted_.fetch_add(1);  // any change wakes the thread
  wanted_.notify_one();
  thread_.join();
}

void KvWarmer::reached(int touched, int most_used) noexcept {
  const size_t block = kv_block_bytes(storage_.shape());
  const size_t ahead = std::max(kLeastAhead, static_cast<size_t>(most_used) * block);
  const size_t wanted = rounded_end(static_cast<size_t>(touched) * block + ahead, storage_);
  if (wanted <= wanted_.load(std::memory_order_relaxed)) return;
  wanted_.store(wanted, std::memory_order_release);
  wanted_.notify_one();
}

void KvWarmer::run() {
  size_t done = 0;
  for (;;) {
    const size_t wanted = wanted_.load(std::memory_order_acquire);
    if (stop_.load()) return;
    if (done >= wanted) {
      wanted_.wait(wanted);
      continue;
    }
    const size_t size = std::min(kPiece, wanted - done);
    if (!storage_.populate(done, size)) return;  // an older kernel: pages come when they are touched
    done += size;
  }
}

}  // namespace pagoda::engine
