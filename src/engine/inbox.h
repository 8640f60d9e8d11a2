// The only way into the engine: commands from any thread, taken by the engine thread once a step.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "engine/engine.h"

namespace pagoda::engine {

inline constexpr int kAllChoices = -1;

// A new request, or the end of one.
struct Command {
  std::optional<EngineRequest> request;  // nullopt: abort
  TimePoint arrived;
  RequestId id;
  int choice = kAllChoices;
};

struct QueueSize {
  int64_t reqs = 0;
  int64_t tokens = 0;  // of their prompts

  friend bool operator==(const QueueSize&, const QueueSize&) = default;
};

// How the engine thread changed what the limits count.
struct QueueChange {
  QueueSize left_queue;             // requests that ran for the first time or ended before they could
  QueueSize left_background_queue;  // likewise, of those in the background
  int64_t ended = 0;                // requests whose last event was delivered

  friend bool operator==(const QueueChange&, const QueueChange&) = default;
};

// Bounds what waits. A request counts as queued from submit() until its prompt first runs, and as live until
// it ends. What runs in the background queues apart, so that it takes nobody's place. The engine thread takes
// the lock only when there is something to take, to tell or to wait for.
class Inbox {
 public:
  explicit Inbox(const EngineOptions& options);

  // --- any thread ---
  // kOverloaded or kShuttingDown. A request that is alone in the queue may exceed the bound on tokens: to ask
  // the client to try again would not help.
  Result<void> submit(EngineRequest request, TimePoint now);
  void abort(RequestId id, int choice);
  void begin_drain();
  void request_stop();  // implies begin_drain()
  bool idle() const;
  uint64_t num_rejected() const;
  int num_submitted() const;  // requests that the engine thread has not taken yet

  // --- engine thread ---
  // Sleeps until there is a command, `has_work`, or a stop; false on a stop.
  bool wait(bool has_work);
  // Swaps the commands, in order of arrival, into the empty `commands`.
  void take(std::vector<Command>& commands);
  void settle(const QueueChange& change);

 private:
  void push(Command command);

  const int64_t max_reqs_, max_tokens_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Command> commands_;
  int num_submitted_ = 0;
  QueueSize queued_, queued_background_;
  int64_t live_reqs_ = 0;
  uint64_t rejected_ = 0;
  bool draining_ = false;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> has_commands_{false};  // commands_ is not empty; changes under the mutex
};

}  // namespace pagoda::engine
