// Work that other threads hand to an I/O thread.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "base/executor.h"
#include "base/result.h"
#include "net/listen_socket.h"

namespace pagoda::net {

class Exchange;

// What many streams post in one step of the engine is one hand-over: the first post makes the event
// descriptor readable, the others find it so. Who wakes the reader does so without a lock: on a busy machine
// the woken thread often takes the waker's CPU at once, and would find the lock taken.
class TaskQueue {
 public:
  // kIo without a file descriptor.
  static Result<std::shared_ptr<TaskQueue>> open();
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  // Any thread. The task runs by Exchange::run(). False after close().
  bool post(std::shared_ptr<Exchange> exchange, std::shared_ptr<Task> task);

  // Readable (8 bytes) while something was posted that the reader was not told of. It reads, then calls
  // run_pending().
  int event_fd() const { return event_.get(); }
  // Runs what was posted so far, in order. One thread at a time. What a task throws is logged.
  void run_pending();
  // Runs what is left and takes nothing more. When nobody reads any more.
  void close();

 private:
  struct Item {
    std::shared_ptr<Exchange> exchange;
    std::shared_ptr<Task> task;
  };

  explicit TaskQueue(UniqueFd event) : event_(std::move(event)) {}

  const UniqueFd event_;
  std::mutex mutex_;
  std::vector<Item> posted_;
  bool announced_ = false;  // the reader is being told
  bool closed_ = false;
  std::vector<Item> running_;  // of run_pending(); a member to keep its memory
};

}  // namespace pagoda::net
