// Time as a dependency: production code takes a Clock, tests hand it a ManualClock.
#pragma once

#include <atomic>
#include <chrono>

namespace pagoda {

using TimePoint = std::chrono::steady_clock::time_point;
using Duration = std::chrono::steady_clock::duration;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
};

// The monotonic clock of the machine. Thread-safe.
class SteadyClock final : public Clock {
 public:
  TimePoint now() const override;
};

// Moves only when told to. Thread-safe.
class ManualClock final : public Clock {
 public:
  TimePoint now() const override;
  void advance(Duration by);

 private:
  std::atomic<Duration::rep> ticks_{0};
};

inline double to_seconds(Duration d) {
  return std::chrono::duration<double>(d).count();
}

}  // namespace pagoda
