#include "kv/kv_manager.h"

#include <gtest/gtest.h>

#include "kv/tests/kv_fixture.h"

namespace pagoda::kv {
namespace {

std::vector<TokenId> iota_tokens(int count, int first = 0) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back({first + i});
  return tokens;
}

class KvManagerTest : public ::testing::Test {
 protected:
  // Fills a table with all tokens, as one step would.
  BlockTable filled(const std::vector<TokenId>& tokens, const std::string& salt = "") {
    BlockTable table = kv_.make_table(salt);
    fill(table, tokens, kv_.match(table, tokens, static_cast<int64_t>(tokens.size())));
    return table;
  }
  void fill(BlockTable& table, const std::vector<TokenId>& tokens, int64_t first) {
    const auto end = static_cast<int64_t>(tokens.size());
    ASSERT_TRUE(kv_.reserve(table, first, end));
    write_tokens(storage_, table, tokens, first);
    kv_.publish(table, tokens, end);
    ASSERT_EQ(first_wrong_slot(storage_, table, tokens), std::nullopt);
  }
  void check(std::vector<const BlockTable*> tables) { kv_.check_integrity(tables); }

  KvStorage storage_ = make_test_storage(8);
  KvManager kv_{storage_, {}};
};

TEST_F(KvManagerTest, MatchFindsFullBlocksOfEqualPrefixAndSalt) {
  const auto tokens = iota_tokens(40);
  BlockTable a = filled(tokens);
  BlockTable b = kv_.make_table(""), c = kv_.make_table("other"), d = kv_.make_table("");
  EXPECT_EQ(kv_.match(b, tokens, 40), 32);
  EXPECT_EQ(b.blocks()[0], a.blocks()[0]);
  EXPECT_EQ(kv_.match(c, tokens, 40), 0);
  auto changed = tokens;
  changed[20].value = 99;
  EXPECT_EQ(kv_.match(d, changed, 40), 16);
  check({&a, &b, &c, &d});
}

TEST_F(KvManagerTest, WholePromptHitLeavesOneTokenToCompute) {
  const auto tokens = iota_tokens(32);
  BlockTable a = filled(tokens), b = kv_.make_table("");
  EXPECT_EQ(kv_.match(b, tokens, 31), 16);
  check({&a, &b});
}

TEST_F(KvManagerTest, NothingIsFindableBeforePublish) {
  const auto tokens = iota_tokens(32);
  BlockTable a = kv_.make_table(""), b = kv_.make_table("");
  ASSERT_TRUE(kv_.reserve(a, 0, 32));
  EXPECT_EQ(kv_.match(b, tokens, 32), 0);
  kv_.publish(a, tokens, 31);  // the second block lacks a token
  EXPECT_EQ(kv_.match(b, tokens, 32), 16);
  check({&a, &b});
}

TEST_F(KvManagerTest, EqualBlocksComputedTwiceBecomeOne) {
  const auto tokens = iota_tokens(34);
  BlockTable a = kv_.make_table(""), b = kv_.make_table("");
  for (BlockTable* table : {&a, &b}) {
    ASSERT_TRUE(kv_.reserve(*table, 0, 34));
    write_tokens(storage_, *table, tokens, 0);
  }
  EXPECT_EQ(kv_.pool().num_used(), 6);
  kv_.publish(a, tokens, 34);
  kv_.publish(b, tokens, 34);
  EXPECT_EQ(kv_.pool().num_used(), 4);
  EXPECT_EQ(b.blocks()[1], a.blocks()[1]);
  EXPECT_NE(b.blocks()[2], a.blocks()[2]);
  EXPECT_EQ(first_wrong_slot(storage_, b, tokens), std::nullopt);
  check({&a, &b});
}

TEST_F(KvManagerTest, ForksCopyThePartialBlockOnWrite) {
  auto tokens = iota_tokens(20);
  BlockTable a = filled(tokens);
  BlockTable b = kv_.fork(a), c = kv_.fork(a);
  EXPECT_EQ(kv_.pool().num_used(), 2);
  auto a_tokens = tokens, b_tokens = tokens;
  a_tokens.push_back({1000});
  b_tokens.push_back({2000});
  fill(a, a_tokens, 20);
  fill(b, b_tokens, 20);
  EXPECT_EQ(kv_.pool().num_used(), 4);
  EXPECT_EQ(first_wrong_slot(storage_, a, a_tokens), std::nullopt);
  EXPECT_EQ(first_wrong_slot(storage_, c, tokens), std::nullopt);
  const BlockId last = c.blocks()[1];
  tokens.push_back({3000});
  fill(c, tokens, 20);
  EXPECT_EQ(c.blocks()[1], last) << "the last holder writes in place";
  check({&a, &b, &c});
}

TEST_F(KvManagerTest, ReserveIsAllOrNothing) {
  const auto tokens = iota_tokens(7 * 16);
  BlockTable a = filled(tokens);
  BlockTable b = kv_.make_table("");
  EXPECT_FALSE(kv_.reserve(b, 0, 17));
  EXPECT_TRUE(b.empty());
  EXPECT_EQ(kv_.num_available(), 1);
  EXPECT_TRUE(kv_.reserve(b, 0, 16));
  check({&a, &b});
}

TEST_F(KvManagerTest, ReserveCountsTheCopyOfASharedBlock) {
  BlockTable a = filled(iota_tokens(7 * 16 + 15));  // all 8 blocks
  BlockTable b = kv_.fork(a);
  EXPECT_FALSE(kv_.reserve(b, 7 * 16 + 15, 8 * 16));
  kv_.release(a);
  EXPECT_TRUE(kv_.reserve(b, 7 * 16 + 15, 8 * 16));
  check({&a, &b});
}

TEST_F(KvManagerTest, EvictionTakesTheTailFirst) {
  const auto tokens = iota_tokens(64);
  BlockTable a = filled(tokens);
  kv_.release(a);
  EXPECT_EQ(kv_.pool().num_cached(), 4);
  BlockTable b = kv_.make_table("");
  ASSERT_TRUE(kv_.reserve(b, 0, 6 * 16));  // 4 free ones and the last 2 of the old prompt
  EXPECT_EQ(kv_.match(a, tokens, 64), 32);
  check({&a, &b});
  kv_.release(a);
  kv_.release(b);
  EXPECT_EQ(kv_.pool().num_used(), 0);
  check({});
}

TEST_F(KvManagerTest, CachingCanBeOff) {
  KvManager kv(storage_, {.enable_prefix_caching = false});
  const auto tokens = iota_tokens(32);
  BlockTable a = kv.make_table(""), b = kv.make_table("");
  ASSERT_TRUE(kv.reserve(a, 0, 32));
  kv.publish(a, tokens, 32);
  EXPECT_EQ(kv.match(b, tokens, 32), 0);
  kv.release(a);
  EXPECT_EQ(kv.pool().num_free(), 8);
}

TEST_F(KvManagerTest, WritingToAPublishedBlockIsABug) {
  BlockTable a = filled(iota_tokens(32));
  EXPECT_DEATH({ [[maybe_unused]] const bool ok = kv_.reserve(a, 31, 33); }, "published");
}

TEST_F(KvManagerTest, IntegrityCheckSeesALostReference) {
  BlockTable a = filled(iota_tokens(32));
  EXPECT_DEATH(check({}), "1 references, 0 uses");
}

}  // namespace
}  // namespace pagoda::kv
