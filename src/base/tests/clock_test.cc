#include "base/clock.h"

#include <gtest/gtest.h>

namespace pagoda {
namespace {

TEST(ClockTest, ManualClockMovesOnlyWhenTold) {
  ManualClock clock;
  const TimePoint start = clock.now();
  EXPECT_EQ(clock.now(), start);
  clock.advance(std::chrono::milliseconds(1500));
  EXPECT_DOUBLE_EQ(to_seconds(clock.now() - start), 1.5);
}

TEST(ClockTest, SteadyClockNeverGoesBack) {
  const SteadyClock clock;
  const TimePoint first = clock.now();
  EXPECT_GE(clock.now(), first);
}

}  // namespace
}  // namespace pagoda
