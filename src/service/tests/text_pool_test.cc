#include "service/text_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <stdexcept>

#include "base/tests/function_task.h"

namespace pagoda::service {
namespace {

TEST(TextPool, RunsEverything) {
  std::atomic<int> done{0};
  {
    TextPool pool(3);
    for (int i = 0; i < 1000; ++i) {
      pool.post_bulk([&] { ++done; });
      pool.post_quick(task([&] { ++done; }));
    }
  }
  EXPECT_EQ(done, 2000);
}

TEST(TextPool, BulkLeavesAThreadForQuickWork) {
  TextPool pool(2);
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  for (int i = 0; i < 4; ++i) pool.post_bulk([released] { released.wait(); });
  std::promise<void> quick_ran;
  pool.post_quick(task([&] { quick_ran.set_value(); }));
  quick_ran.get_future().wait();  // would never come if bulk work held both threads
  release.set_value();
  pool.flush();
}

TEST(TextPool, QuickWorkGoesFirst) {
  TextPool pool(1);
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  std::string order;
  pool.post_quick(task([released] { released.wait(); }));
  pool.post_bulk([&] { order += 'b'; });
  pool.post_quick(task([&] { order += 'q'; }));
  release.set_value();
  pool.flush();
  EXPECT_EQ(order, "qb");
}

TEST(TextPool, OneThreadDoesBothKinds) {
  TextPool pool(1);
  std::atomic<int> done{0};
  pool.post_bulk([&] { ++done; });
  pool.post_quick(task([&] { ++done; }));
  pool.flush();
  EXPECT_EQ(done, 2);
}

TEST(TextPool, SurvivesAThrowingTask) {
  TextPool pool(1);
  std::atomic<int> done{0};
  pool.post_quick(task([] { throw std::runtime_error("bad task"); }));
  pool.post_bulk([] { throw std::runtime_error("bad task"); });
  pool.post_quick(task([&] { ++done; }));
  pool.flush();
  EXPECT_EQ(done, 1);
}

}  // namespace
}  // namespace pagoda::service
