#include "kv/block_hash.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tensor/kv_storage.h"

namespace pagoda::kv {
namespace {

std::string hex(BlockKey key) {
  std::string out;
  for (const uint64_t word : {key.lo, key.hi}) {
    for (int i = 0; i < 8; ++i) {
      constexpr char kDigits[] = "0123456789abcdef";
      const auto byte = static_cast<uint8_t>(word >> (8 * i));
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    }
  }
  return out;
}

// Expected values: OpenSSL 3.0, `openssl mac -macopt hexkey:000102...0f -macopt size:16 SIPHASH`.
TEST(BlockHashTest, EqualsOpenSslsSipHash) {
  const BlockKey secret{0x0706050403020100, 0x0f0e0d0c0b0a0908};
  std::vector<uint8_t> bytes;
  EXPECT_EQ(hex(siphash128(bytes, secret)), "a3817f04ba25a8e66df67214c7550293");
  bytes = {0};
  EXPECT_EQ(hex(siphash128(bytes, secret)), "da87c1d86b99af44347659119b22fc45");
  for (uint8_t i = 1; i < 15; ++i) bytes.push_back(i);
  EXPECT_EQ(hex(siphash128(bytes, secret)), "5493e99933b0a8117e08ec0f97cfc3d9");
}

TEST(BlockHashTest, KeysDependOnSecretSaltParentAndEveryToken) {
  const BlockHasher hasher({1, 2}), other({1, 3});
  std::vector<TokenId> tokens(kKvBlockTokens, TokenId{7});
  std::set<BlockKey> keys{hasher.root(""),
                          hasher.root("a"),
                          other.root(""),
                          hasher.chain(hasher.root(""), tokens),
                          hasher.chain(hasher.root("a"), tokens),
                          other.chain(other.root(""), tokens)};
  for (TokenId& token : tokens) {
    ++token.value;
    keys.insert(hasher.chain(hasher.root(""), tokens));
    --token.value;
  }
  EXPECT_EQ(keys.size(), 6u + kKvBlockTokens);
  EXPECT_EQ(hasher.root("a"), BlockHasher({1, 2}).root("a"));
}

TEST(BlockHashTest, ShortKeysHaveOnlyTheirBits) {
  const BlockHasher one_bit({5, 6}, 1), cut({5, 6}, 70);
  std::set<BlockKey> keys;
  for (int i = 0; i < 64; ++i) {
    keys.insert(one_bit.root(std::to_string(i)));
    EXPECT_LT(cut.root(std::to_string(i)).hi, 64u);
  }
  EXPECT_EQ(keys, (std::set<BlockKey>{{0, 0}, {1, 0}}));
}

}  // namespace
}  // namespace pagoda::kv
