#include "cli/batch_progress.h"

#include <gtest/gtest.h>

namespace pagoda::cli {
namespace {

TEST(BatchProgressTest, Lines) {
  BatchSnapshot snapshot{.done = 0, .failed = 0, .total = 100, .tokens = 0, .seconds = 0, .done_before = 0};
  EXPECT_EQ(progress_text(snapshot, 10), "[>         ] 0/100");
  snapshot = {.done = 50, .failed = 2, .total = 100, .tokens = 1205, .seconds = 10, .done_before = 10};
  EXPECT_EQ(progress_text(snapshot, 10), "[=====>    ] 50/100, 2 failed, 120.5 tokens/s, 0:13 left");
  EXPECT_EQ(progress_text(snapshot, 0), "50/100, 2 failed, 120.5 tokens/s, 0:13 left");
  snapshot.done = 100;
  EXPECT_EQ(progress_text(snapshot, 10), "[==========] 100/100, 2 failed, 120.5 tokens/s");
  snapshot.total.reset();
  EXPECT_EQ(progress_text(snapshot, 10), "100 done, 2 failed, 120.5 tokens/s");
}

}  // namespace
}  // namespace pagoda::cli
