#include "base/check.h"

#include <gtest/gtest.h>

namespace pagoda {
namespace {

TEST(CheckDeathTest, PrintsConditionAndDetail) {
  const int got = 3;
  EXPECT_DEATH(PAGODA_CHECK(got == 4, "got {} of {}", got, 4), "check failed: got == 4: got 3 of 4");
  EXPECT_DEATH(PAGODA_CHECK(got == 4), "check failed: got == 4");
}

TEST(CheckTest, PassesSilently) {
  PAGODA_CHECK(1 + 1 == 2, "arithmetic");
}

}  // namespace
}  // namespace pagoda
