#include "service/text_pool.h"

#include <algorithm>
#include <exception>

#include "base/check.h"
#include "base/log.h"

namespace pagoda::service {
namespace {

// Work reports its own failures; what still escapes is a bug that must not end the process.
template <class Work>
void run_guarded(const Work& work) {
  try {
    work();
  } catch (const std::exception& failure) {
    log::error("text pool: a task failed: {}", failure.what());
  } catch (...) {
    log::error("text pool: a task failed with an unknown exception");
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

void TextPool::post_quick(std::shared_ptr<Task> task) {
  {
    const std::lock_guard lock(mutex_);
    quick_.push_back(std::move(task));
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
    if (quick_.empty() && !can_take_bulk()) return;
    ++running_;
    if (quick_.empty()) {
      run_bulk(lock);
    } else {
      run_quick(lock);
    }
    --running_;
    if (running_ == 0 && quick_.empty() && bulk_.empty()) idle_.notify_all();
  }
}

void TextPool::run_quick(std::unique_lock<std::mutex>& lock) {
  {
    const std::shared_ptr<Task> task = std::move(quick_.front());
    quick_.pop_front();
    lock.unlock();
    run_guarded([&] { task->run(); });
  }
  lock.lock();
}

void TextPool::run_bulk(std::unique_lock<std::mutex>& lock) {
  ++bulk_running_;
  {
    const std::function<void()> work = std::move(bulk_.front());
    bulk_.pop_front();
    lock.unlock();
    run_guarded(work);
  }
  lock.lock();
  --bulk_running_;
  // A place for bulk work is free again, or the last of it is done and the others may leave.
  work_available_.notify_all();
}

}  // namespace pagoda::service
