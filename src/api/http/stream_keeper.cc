#include "api/http/stream_keeper.h"

#include <utility>

namespace pagoda::http {

StreamKeeper::~StreamKeeper() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void StreamKeeper::add(std::weak_ptr<KeptStream> stream) {
  if (interval_.count() <= 0) return;
  const std::lock_guard lock(mutex_);
  entries_.push_back({Clock::now() + interval_, std::move(stream)});
  if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
  if (entries_.size() == 1) changed_.notify_all();
}

void StreamKeeper::loop() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (entries_.empty()) {
      changed_.wait(lock);
    } else if (const auto due = entries_.front().due; due > Clock::now()) {
      changed_.wait_until(lock, due);
    } else {
      std::list<Entry> taken;
      taken.splice(taken.begin(), entries_, entries_.begin());
      lock.unlock();  // a stream may be busy with an event, or be destroyed here
      bool again = false;
      if (const auto stream = taken.front().stream.lock()) again = stream->keep_alive();
      lock.lock();
      taken.front().due = Clock::now() + interval_;
      if (again) entries_.splice(entries_.end(), taken);
    }
  }
}

}  // namespace pagoda::http
