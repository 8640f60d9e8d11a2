#include "service/text_pool.h"

#include <algorithm>
#include <exception>

#include "base/check.h"
#include "base/log.h"

namespace pagoda::service {
namespace {

// Work reports its own failures; what still escapes is a bug that must not end the process.
void run_guarded(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& failure) {
    log::error("text pool: a task failed: {}", failure.what());
  }
}

}  // namespace

TextPool::TextPool(int num_threads) : bulk_limit_(std::max(1, num_threads - 1)) {
  PAGODA_CHECK(num_threads >= 1, "got {} threads", num_threads);
  for (int i = 0; i < num_threads; ++i) threads_.emplace_back([this] { loop(); });
}

TextPool::~TextPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_available_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void TextPool::post_quick(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    quick_.push_back(std::move(work));
  }
  work_available_.notify_one();
}

void TextPool::post_bulk(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    bulk_.push_back(std::move(work));
  }
  work_available_.notify_one();
}

void TextPool::flush() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return running_ == 0 && quick_.empty() && bulk_.empty(); });
}

void TextPool::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_available_.wait(lock, [this] {
      return !quick_.empty() || can_take_bulk() || (stopping_ && quick_.empty() && bulk_.empty());
    });
    const bool bulk = quick_.empty();
    if (bulk && !can_take_bulk()) return;
    auto& queue = bulk ? bulk_ : quick_;
    const std::function<void()> work = std::move(queue.front());
    queue.pop_front();
    ++running_;
    bulk_running_ += bulk ? 1 : 0;
    lock.unlock();
    run_guarded(work);
    lock.lock();
    --running_;
    bulk_running_ -= bulk ? 1 : 0;
    // A place for bulk work is free again, or the last of it is done and the others may leave.
    if (bulk) work_available_.notify_all();
    if (running_ == 0 && quick_.empty() && bulk_.empty()) idle_.notify_all();
  }
}

}  // namespace pagoda::service
