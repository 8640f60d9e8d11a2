// An executor whose tasks run when the test says so.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/executor.h"

namespace pagoda::service {

class ManualExecutor final : public Executor {
 public:
  bool post(std::shared_ptr<Task> task) override {
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    tasks_.push_back(std::move(task));
    ++posts_;
    return true;
  }

  // What was posted so far.
  void run() {
    std::vector<std::shared_ptr<Task>> tasks;
    {
      const std::lock_guard lock(mutex_);
      tasks.swap(tasks_);
    }
    for (const auto& task : tasks) task->run();
  }
  // Takes no more tasks; what was taken may still be run.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }

  int posts() const {
    const std::lock_guard lock(mutex_);
    return posts_;
  }
  size_t waiting() const {
    const std::lock_guard lock(mutex_);
    return tasks_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Task>> tasks_;
  int posts_ = 0;
  bool closed_ = false;
};

}  // namespace pagoda::service
