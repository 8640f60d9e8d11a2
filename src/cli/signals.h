// SIGTERM and SIGINT as something one can wait for.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace pagoda::cli {

// Blocks the signals in the calling thread (and so in every thread started later) and receives them on an own
// thread. The second signal ends the process at once, as does the first while `set_interruptible(true)`
// holds. Make it before any other thread.
class SignalWatcher {
 public:
  SignalWatcher();
  ~SignalWatcher();
  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;

  // While the model loads nothing is in flight that a drain could save.
  void set_interruptible(bool value);
  void wait();                                    // until the first signal
  bool wait_for(std::chrono::milliseconds time);  // true when there was one

 private:
  void watch();
  std::atomic<bool> interruptible_{true};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool signalled_ = false;
  std::thread thread_;
};

}  // namespace pagoda::cli
