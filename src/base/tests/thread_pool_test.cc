#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <vector>

namespace pagoda {
namespace {

TEST(ComputePoolTest, RunsEveryChunkOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    ComputePool pool(threads);
    for (const int chunks : {0, 1, 2, 7, 64, 1000}) {
      std::vector<std::atomic<int>> hits(static_cast<size_t>(chunks));
      pool.run(chunks, [&](int chunk, int worker) {
        EXPECT_GE(worker, 0);
        EXPECT_LT(worker, threads);
        hits[static_cast<size_t>(chunk)].fetch_add(1);
      });
      for (auto& hit : hits) EXPECT_EQ(hit.load(), 1);
    }
  }
}

// Many tiny jobs back to back: a late worker of job n must not take a chunk of job n + 1 with the body of job
// n.
TEST(ComputePoolTest, ManyShortJobsInARow) {
  ComputePool pool(4);
  int64_t total = 0;
  for (int job = 0; job < 20000; ++job) {
    std::atomic<int64_t> sum{0};
    pool.run(3, [&](int chunk, int) { sum.fetch_add(chunk + job); });
    total += sum.load();
    ASSERT_EQ(sum.load(), 3 + 3 * int64_t{job});
  }
  EXPECT_GT(total, 0);
}

// A worker that wakes up late, while the pool ends right after a job, must still see that it ends: it would
// sleep for ever otherwise, and the pool wait for it.
TEST(ComputePoolTest, EndsRightAfterAJob) {
  for (const int threads : {2, 3, 8}) {
    for (int round = 0; round < 3000; ++round) {
      ComputePool pool(threads);
      for (int job = 0; job <= round % 3; ++job) pool.run(2, [](int, int) {});
    }
  }
}

TEST(ComputePoolTest, PlainWritesAreVisibleAcrossRuns) {
  ComputePool pool(2);
  std::vector<int> data(4096);
  for (int round = 1; round <= 200; ++round) {
    pool.run(16, [&](int chunk, int) {
      const auto range = chunk_range(4096, 16, chunk);
      for (int64_t i = range.begin; i < range.end; ++i) data[static_cast<size_t>(i)] += 1;
    });
    ASSERT_EQ(std::accumulate(data.begin(), data.end(), 0), 4096 * round);
  }
}

TEST(ChunkRangeTest, CoversWithoutOverlap) {
  for (const int64_t count : {0, 1, 5, 100}) {
    int64_t next = 0;
    for (int chunk = 0; chunk < 7; ++chunk) {
      const auto range = chunk_range(count, 7, chunk);
      EXPECT_EQ(range.begin, next);
      next = range.end;
    }
    EXPECT_EQ(next, count);
  }
}

}  // namespace
}  // namespace pagoda
