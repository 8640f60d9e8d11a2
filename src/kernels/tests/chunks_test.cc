#include "kernels/chunks.h"

#include <gtest/gtest.h>

#include <vector>

namespace pagoda::kernels {
namespace {

std::vector<int64_t> sizes(double item_ns, int64_t items, int threads) {
  const ShrinkingChunks chunks(item_ns * static_cast<double>(items), items, threads);
  std::vector<int64_t> result;
  int64_t next = 0;
  for (int chunk = 0; chunk < chunks.count(); ++chunk) {
    const auto [begin, end] = chunks.range(chunk);
    EXPECT_EQ(begin, next) << "chunk " << chunk << " of " << items << " items, " << threads << " threads";
    EXPECT_LT(begin, end) << "chunk " << chunk << " of " << items << " items, " << threads << " threads";
    result.push_back(end - begin);
    next = end;
  }
  EXPECT_EQ(next, items) << threads << " threads";
  return result;
}

TEST(ShrinkingChunksTest, CoverEverythingOnceAndNeverGrow) {
  for (const int threads : {1, 2, 3, 7, 64}) {
    for (const double item_ns : {3.0, 400.0, 1500.0, 9000.0, 49999.0, 200000.0}) {
      for (const int64_t items : {1, 2, 3, 5, 18, 30, 36, 97, 1000, 4748}) {
        const auto all = sizes(item_ns, items, threads);
        for (size_t i = 1; i < all.size(); ++i) EXPECT_LE(all[i], all[i - 1]);
      }
    }
  }
}

TEST(ShrinkingChunksTest, HalveTheRestWithEachBatch) {
  EXPECT_EQ(sizes(2000, 32, 2), (std::vector<int64_t>{8, 8, 4, 4, 2, 2, 1, 1, 1, 1}));
}

// What is left to the last thread is at most what one chunk of the shortest time takes.
TEST(ShrinkingChunksTest, EndWithChunksOfAboutTheShortestTime) {
  for (const double item_ns : {100.0, 450.0, 1400.0, 3000.0}) {
    const auto all = sizes(item_ns, 960, 2);
    EXPECT_LE(static_cast<double>(all.back()) * item_ns, std::max(1500.0, item_ns));
  }
}

TEST(ShrinkingChunksTest, NoneIsLongerThanTheLongestTimeUnlessOneItemIs) {
  EXPECT_EQ(sizes(1000, 100000, 2).front(), 50);
  EXPECT_EQ(sizes(60000, 100, 2).front(), 1);
}

TEST(ShrinkingChunksTest, LittleWorkAndASingleThreadAreOneChunk) {
  EXPECT_EQ(sizes(100, 39, 2), std::vector<int64_t>{39});
  EXPECT_EQ(sizes(5000, 300, 1), std::vector<int64_t>{300});
}

// Two threads that take chunks as they come end together, whatever the number of panels.
TEST(ShrinkingChunksTest, TwoThreadsShareSmallProductsEvenly) {
  for (const int64_t panels : {18, 28, 30, 36, 96}) {
    double free_at[2] = {0, 0};
    for (const int64_t size : sizes(460, panels, 2))
      *std::min_element(free_at, free_at + 2) += 460.0 * static_cast<double>(size);
    EXPECT_LE(std::max(free_at[0], free_at[1]), 460.0 * static_cast<double>(panels) / 2 + 1500)
        << panels << " panels";
  }
}

}  // namespace
}  // namespace pagoda::kernels
