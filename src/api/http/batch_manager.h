// Runs the batches of a store, one after the other, in a thread of its own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "api/http/batch_job.h"
#include "api/http/batch_store.h"
#include "api/openai/batch_objects.h"
#include "base/result.h"
#include "net/http_server.h"

namespace pagoda::http {

// The oldest batch goes first. The thread has the lowest priority of the machine, and the requests run in the
// background. Where the disk refuses, a batch waits and is tried again, and others go on.
class BatchManager {
 public:
  using Delay = std::chrono::milliseconds;

  // Both must outlive the manager.
  BatchManager(BatchStore& store, const net::HttpServer& server, Delay retry_delay = Delay(5000))
      : store_(store), server_(server), retry_delay_(retry_delay) {}
  ~BatchManager() { stop(); }
  BatchManager(const BatchManager&) = delete;
  BatchManager& operator=(const BatchManager&) = delete;

  // Goes on with what an earlier process left. `window` lines are under way at once.
  void start(size_t window);
  // Cancels what runs and joins: a later start goes on with it. Idempotent.
  void stop();

  // --- any thread ---
  // kInvalidArgument with `param`, kOverloaded, kIo.
  Result<openai::BatchObject> create(const openai::CreateBatchRequest& request);
  // kNotFound; kInvalidArgument if it has ended.
  Result<openai::BatchObject> cancel(const std::string& id);
  // As clients see it: with the counts of now, and without names of files that are not there yet.
  openai::BatchObject view(openai::BatchObject batch) const;

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Delayed {
    Time until;
    BatchProgress progress;  // when the disk refused
  };

  void loop();
  // Waits for a batch that can run; null after stop().
  std::shared_ptr<BatchJob> next_job();
  // The oldest one that is not delayed, and when the next delay ends.
  std::optional<openai::BatchObject> pick(std::optional<Time>& wake) const;

  BatchStore& store_;
  const net::HttpServer& server_;
  const Delay retry_delay_;
  size_t window_ = 1;
  mutable std::mutex mutex_;  // taken before that of the store
  std::condition_variable changed_;
  bool stopping_ = false;
  std::string current_id_;
  std::shared_ptr<BatchJob> current_;
  std::map<std::string, Delayed> delayed_;
  std::thread thread_;
};

}  // namespace pagoda::http
