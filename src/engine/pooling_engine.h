// Vectors instead of tokens: requests of token sequences, run in batches on one thread.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "model/embedder.h"

namespace pagoda::engine {

using Vectors = std::vector<std::vector<float>>;

struct PoolingRequest {
  std::vector<std::vector<TokenId>> sequences;  // one or more, each of 1 to max_tokens() tokens
  int64_t dimensions =
      0;  // the first so many numbers of each vector, made length 1 again; 0 = all as they are
  bool background = false;  // runs when nothing else waits
  // Called once, on the engine thread, which it should not keep: one vector for each sequence, or kCancelled,
  // or kShuttingDown.
  std::function<void(Result<Vectors>)> done;
};

struct PoolingOptions {
  int64_t max_num_queued_reqs = 1024;       // beyond: kOverloaded
  int64_t max_num_queued_tokens = 4 << 20;  // likewise, unless nothing else waits
};

struct PoolingStats {
  int64_t running = 0, waiting = 0;  // requests: with a sequence in the current batch, and the others
  uint64_t tokens = 0, rejected = 0, batches = 0;
};

// Of one finished request.
struct PoolingTimes {
  TimePoint arrived, started, finished;
  int64_t tokens = 0;
  bool cancelled = false, background = false;
};

// A batch takes one sequence of each request in turn, so that a request of a thousand texts delays one of a
// single text by a batch and not by a thousand texts. What runs in the background shares no batch with
// others, comes when there are no others, and queues apart, so that it takes nobody's place.
class PoolingEngine {
 public:
  // `embedder` must outlive the engine and belongs to its thread; `observe` may be null and is called there.
  PoolingEngine(model::Embedder& embedder, const PoolingOptions& options, const Clock& clock,
                std::function<void(const PoolingTimes&)> observe);
  ~PoolingEngine();
  PoolingEngine(const PoolingEngine&) = delete;
  PoolingEngine& operator=(const PoolingEngine&) = delete;

  void start();
  // Any thread. A number for cancel(), or kOverloaded or kShuttingDown.
  Result<uint64_t> submit(PoolingRequest request);
  // Ends the request after the batch that runs; nothing happens when it has ended already.
  void cancel(uint64_t id);
  void begin_drain();
  void stop();  // what waits ends with kShuttingDown
  bool idle() const;
  PoolingStats stats() const;
  int64_t max_tokens() const { return embedder_.max_tokens(); }
  int64_t width() const { return embedder_.width(); }

 private:
  struct Job;
  struct Item {
    std::shared_ptr<Job> job;
    size_t sequence = 0;
  };

  struct Queue {
    std::deque<std::shared_ptr<Job>> jobs;  // in the order of their turns
    int64_t tokens = 0;
  };

  void loop();
  Result<void> admit(const Queue& queue, int64_t tokens);
  std::vector<Item> next_batch();
  void take_turns(std::deque<std::shared_ptr<Job>>& jobs, std::vector<Item>* batch);
  void run_batch(const std::vector<Item>& batch);
  void settle(const std::vector<Item>& batch);
  void finish(const std::shared_ptr<Job>& job, Result<Vectors> result);

  model::Embedder& embedder_;
  const PoolingOptions options_;
  const Clock& clock_;
  const std::function<void(const PoolingTimes&)> observe_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::array<Queue, 2> queues_;  // the second runs in the background
  PoolingStats stats_;
  uint64_t next_id_ = 1;
  bool draining_ = false, stopping_ = false;
  std::thread thread_;
};

}  // namespace pagoda::engine
