#include "kv/prefix_cache.h"

#include <gtest/gtest.h>

#include "tensor/kv_storage.h"

namespace pagoda::kv {
namespace {

class PrefixCacheTest : public ::testing::Test {
 protected:
  BlockContent content(int first_token, uint64_t parent = kRootNode) {
    tokens_.assign(kKvBlockTokens, TokenId{first_token});
    return {.key = {}, .parent = parent, .tokens = tokens_, .salt = &salt_};  // one key: everything collides
  }

  PrefixCache cache_{8};
  std::vector<TokenId> tokens_;
  SharedSalt salt_ = std::make_shared<const std::string>("a");
};

TEST_F(PrefixCacheTest, CollidingKeysAreToldApartByTokensParentAndSalt) {
  const uint64_t first = cache_.insert(BlockId{3}, content(1));
  cache_.insert(BlockId{5}, content(2));
  cache_.insert(BlockId{1}, content(1, first));
  EXPECT_EQ(cache_.find(content(1)), BlockId{3});
  EXPECT_EQ(cache_.find(content(2)), BlockId{5});
  EXPECT_EQ(cache_.find(content(1, first)), BlockId{1});
  EXPECT_EQ(cache_.find(content(2, first)), std::nullopt);
  EXPECT_EQ(cache_.find(content(1, first + 100)), std::nullopt);
  salt_ = std::make_shared<const std::string>("b");
  EXPECT_EQ(cache_.find(content(1)), std::nullopt);
  salt_ = std::make_shared<const std::string>("a");  // equal text, another object
  EXPECT_EQ(cache_.find(content(1)), BlockId{3});
  cache_.check_integrity();
}

TEST_F(PrefixCacheTest, AnErasedBlockTakesItsChildrenOutOfReach) {
  const uint64_t first = cache_.insert(BlockId{0}, content(1));
  cache_.insert(BlockId{1}, content(2, first));
  cache_.erase(BlockId{1});
  EXPECT_EQ(cache_.find(content(2, first)), std::nullopt);
  cache_.erase(BlockId{0});
  const uint64_t again = cache_.insert(BlockId{0}, content(1));
  EXPECT_NE(again, first) << "a node number was used twice";
  EXPECT_EQ(cache_.size(), 1);
  cache_.check_integrity();
}

TEST_F(PrefixCacheTest, ErasesFromTheMiddleOfABucket) {
  for (int i = 0; i < 5; ++i) cache_.insert(BlockId{i}, content(i));
  for (const int i : {2, 4, 0}) cache_.erase(BlockId{i});
  for (int i = 0; i < 5; ++i) EXPECT_EQ(cache_.find(content(i)).has_value(), i == 1 || i == 3) << i;
  cache_.check_integrity();
}

}  // namespace
}  // namespace pagoda::kv
