#include "kv/block_pool.h"

#include <gtest/gtest.h>

namespace pagoda::kv {
namespace {

TEST(BlockPoolTest, CountsEveryBlockOnce) {
  BlockPool pool(3);
  const BlockId a = pool.take_free(), b = pool.take_free();
  EXPECT_NE(a, b);
  EXPECT_EQ(pool.num_used(), 2);
  EXPECT_EQ(pool.num_free(), 1);
  pool.drop(a, /*findable=*/true);
  pool.drop(b, /*findable=*/false);
  EXPECT_EQ(pool.num_used(), 0);
  EXPECT_EQ(pool.num_cached(), 1);
  EXPECT_EQ(pool.num_free(), 2);
  pool.check_integrity();
}

TEST(BlockPoolTest, LastReferenceDecides) {
  BlockPool pool(2);
  const BlockId a = pool.take_free();
  pool.retain(a);
  pool.drop(a, true);
  EXPECT_EQ(pool.refs(a), 1);
  EXPECT_EQ(pool.num_used(), 1);
  pool.drop(a, true);
  EXPECT_EQ(pool.num_cached(), 1);
  pool.check_integrity();
}

TEST(BlockPoolTest, EvictsTheBlockReleasedLongestAgo) {
  BlockPool pool(4);
  BlockId blocks[4];
  for (BlockId& block : blocks) block = pool.take_free();
  for (const int i : {2, 0, 3, 1}) pool.drop(blocks[i], true);
  pool.retain(blocks[2]);  // used again: goes to the other end
  pool.drop(blocks[2], true);
  pool.retain(blocks[3]);  // from the middle
  pool.check_integrity();
  EXPECT_EQ(pool.take_oldest_cached(), blocks[0]);
  EXPECT_EQ(pool.take_oldest_cached(), blocks[1]);
  EXPECT_EQ(pool.take_oldest_cached(), blocks[2]);
  EXPECT_EQ(pool.num_cached(), 0);
  EXPECT_EQ(pool.num_used(), 4);
  pool.check_integrity();
}

TEST(BlockPoolTest, RemembersTheBusiestMomentAndHowFarItGot) {
  BlockPool pool(8);
  const BlockId a = pool.take_free(), b = pool.take_free(), c = pool.take_free();
  EXPECT_EQ(pool.most_used(), 3);
  EXPECT_EQ(pool.num_touched(), 3);
  pool.drop(a, true);
  pool.drop(b, true);
  pool.drop(c, false);
  const BlockId again = pool.take_free();
  EXPECT_EQ(again, c) << "one that is free already";
  EXPECT_EQ(pool.most_used(), 3);
  EXPECT_EQ(pool.num_touched(), 3);
  pool.take_free();  // a new one beside the two that are cached
  EXPECT_EQ(pool.num_touched(), 4);
  EXPECT_EQ(pool.most_used(), 3) << "cached blocks are not used";
  pool.retain(a);
  pool.retain(b);
  EXPECT_EQ(pool.most_used(), 4);
  EXPECT_EQ(pool.num_touched(), 4);
}

TEST(BlockPoolDeathTest, BugsAreCaught) {
  BlockPool pool(1);
  const BlockId a = pool.take_free();
  EXPECT_DEATH(pool.take_free(), "num_free_");
  pool.drop(a, false);
  EXPECT_DEATH(pool.drop(a, false), "no reference");
  EXPECT_DEATH(pool.retain(a), "is free");
  EXPECT_DEATH(pool.refs(BlockId{1}), "block 1 of 1");
}

}  // namespace
}  // namespace pagoda::kv
