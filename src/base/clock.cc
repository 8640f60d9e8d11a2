#include "base/clock.h"

namespace pagoda {

TimePoint SteadyClock::now() const {
  return std::chrono::steady_clock::now();
}

TimePoint ManualClock::now() const {
  return TimePoint(Duration(ticks_.load(std::memory_order_relaxed)));
}

void ManualClock::advance(Duration by) {
  ticks_.fetch_add(by.count(), std::memory_order_relaxed);
}

}  // namespace pagoda
