#include "api/http/file_thread.h"

#include <chrono>
#include <exception>
#include <utility>
#include <vector>

#include "base/log.h"

namespace pagoda::http {
namespace {

// What wants to be called again mostly waits for a client to read.
constexpr std::chrono::milliseconds kAgainDelay{2};

bool run(const FileThread::Work& work) {
  try {
    return work();
  } catch (const std::exception& failure) {
    log::error("work on files failed: {}", failure.what());
    return true;
  }
}

}  // namespace

FileThread::FileThread() : thread_([this] { loop(); }) {}

FileThread::~FileThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void FileThread::post(Work work) {
  {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(work));
  }
  changed_.notify_all();
}

void FileThread::loop() {
  std::vector<Work> again;
  for (;;) {
    std::deque<Work> posted;
    {
      std::unique_lock lock(mutex_);
      const auto has_news = [&] { return stopping_ || !posted_.empty(); };
      if (again.empty()) {
        changed_.wait(lock, has_news);
      } else {
        changed_.wait_for(lock, kAgainDelay, has_news);
      }
      if (stopping_ && posted_.empty()) return;
      posted.swap(posted_);
    }
    std::erase_if(again, run);
    for (Work& work : posted) {
      if (!run(work)) again.push_back(std::move(work));
      work = nullptr;  // what it holds goes now, not with the last of these
    }
  }
}

}  // namespace pagoda::http
