// The threads that work on text: parsing, encoding and decoding, never on sockets or logits.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/executor.h"

namespace pagoda::service {

// Two kinds of work share the threads: quick (a few tokens to decode) goes first, and bulk (a prompt to
// encode, which may be megabytes long) never takes the last thread when there is more than one, so that a
// long prompt does not hold up running streams.
class TextPool {
 public:
  explicit TextPool(int num_threads);
  // Runs what was posted, then joins.
  ~TextPool();
  TextPool(const TextPool&) = delete;
  TextPool& operator=(const TextPool&) = delete;

  void post_quick(std::shared_ptr<Task> task);
  void post_bulk(std::function<void()> work);
  // Until nothing waits or runs. Not from a thread of the pool.
  void flush();

 private:
  void loop();
  // Takes the next piece of work and runs it without the lock.
  void run_quick(std::unique_lock<std::mutex>& lock);
  void run_bulk(std::unique_lock<std::mutex>& lock);
  bool can_take_bulk() const { return !bulk_.empty() && bulk_running_ < bulk_limit_; }

  const int bulk_limit_;
  std::mutex mutex_;
  std::condition_variable work_available_, idle_;
  std::deque<std::shared_ptr<Task>> quick_;
  std::deque<std::function<void()>> bulk_;
  int running_ = 0, bulk_running_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace pagoda::service
