#include "net/task_queue.h"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <cstring>
#include <exception>

#include "base/log.h"
#include "net/exchange.h"

namespace pagoda::net {

Result<std::shared_ptr<TaskQueue>> TaskQueue::open() {
  UniqueFd event(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (event.get() < 0)
    return make_error(ErrorKind::kIo,
                      fmt::format("cannot open an event descriptor: {}", std::strerror(errno)));
  return std::shared_ptr<TaskQueue>(new TaskQueue(std::move(event)));
}

bool TaskQueue::post(std::shared_ptr<Exchange> exchange, std::shared_ptr<Task> task) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    posted_.push_back({std::move(exchange), std::move(task)});
    if (std::exchange(announced_, true)) return true;
  }
  // Fails only when the counter is full, and then the descriptor is readable.
  (void)::eventfd_write(event_.get(), 1);
  return true;
}

void TaskQueue::run_pending() {
  {
    const std::lock_guard lock(mutex_);
    announced_ = false;
    running_.swap(posted_);
  }
  for (const Item& item : running_) {
    try {
      item.exchange->run(*item.task);
    } catch (const std::exception& error) {
      log::error("a task of an I/O thread failed: {}", error.what());
    } catch (...) {
      log::error("a task of an I/O thread failed with an unknown exception");
    }
  }
  running_.clear();
}

void TaskQueue::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  run_pending();
}

}  // namespace pagoda::net
