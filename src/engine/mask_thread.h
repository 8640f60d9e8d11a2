// Masks of constrained outputs, filled beside the forward pass.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/result.h"
#include "engine/batch.h"

namespace pagoda::engine {

// A mask takes from some microseconds to a few milliseconds, and the other sequences of a step would wait for
// it after the model has run. Where a core has nothing to do meanwhile it costs them nothing. The thread
// starts with the first constrained output.
class MaskThread {
 public:
  explicit MaskThread(int64_t vocab_size);
  ~MaskThread();
  MaskThread(const MaskThread&) = delete;
  MaskThread& operator=(const MaskThread&) = delete;

  // Begins with the masks of the next tokens of all constrained choices. Every mask of the call before has
  // been taken.
  void begin(std::span<const SampleTask> tasks) noexcept;
  // The mask of the choice whose first task is tasks[index]; valid until the next begin(). The caller fills
  // it where the thread has not begun with it, so that nobody waits for a thread that gets no CPU. Once for
  // each choice, from any thread.
  Result<std::span<const uint32_t>> take(size_t index) noexcept;

 private:
  enum class State : uint8_t { kWaiting, kRunning, kDone };
  struct Job {
    sampling::TokenConstraint* constraint = nullptr;
    std::vector<uint32_t> mask;
    Result<void> filled;
    std::atomic<State> state{State::kDone};
  };

  void loop();
  bool claim(Job& job) noexcept;
  void fill(Job& job) noexcept;
  void start() noexcept;

  const size_t mask_words_;
  std::deque<Job> jobs_;  // at least one for each task of a step
  size_t num_jobs_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t generation_ = 0;  // counts calls of begin()
  bool running_ = false;     // the thread may look at jobs
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace pagoda::engine
