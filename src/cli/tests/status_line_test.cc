#include "cli/status_line.h"

#include <gtest/gtest.h>

namespace pagoda::cli {
namespace {

TEST(StatusLineTest, Durations) {
  EXPECT_EQ(format_duration(-1), "0:00");
  EXPECT_EQ(format_duration(6.6), "0:07");
  EXPECT_EQ(format_duration(725), "12:05");
  EXPECT_EQ(format_duration(3725), "1:02:05");
}

TEST(StatusLineTest, Bars) {
  EXPECT_EQ(progress_bar(0.5, 0), "");
  EXPECT_EQ(progress_bar(0, 4), "[>   ] ");
  EXPECT_EQ(progress_bar(0.5, 4), "[==> ] ");
  EXPECT_EQ(progress_bar(7, 4), "[====] ");
}

TEST(StatusLineTest, ControlCodesAreBlanks) {
  EXPECT_EQ(without_control_codes("a\x1b[2J\n\x7f"
                                  "b"),
            "a [2J  b");
}

}  // namespace
}  // namespace pagoda::cli
