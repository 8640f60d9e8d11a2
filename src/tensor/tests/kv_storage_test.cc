#include "tensor/kv_storage.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

namespace pagoda {
namespace {

TEST(KvStorage, SizesFollowTheShape) {
  const KvShape bf16{3, 2, 6, DType::kBF16}, f32{3, 2, 6, DType::kF32};
  EXPECT_EQ(kv_block_bytes(bf16), 3u * 2 * 2 * 16 * 6 * 2);  // layers, heads, K and V, tokens, dims, bytes
  EXPECT_EQ(kv_block_bytes(f32), 2 * kv_block_bytes(bf16));
  EXPECT_EQ(kv_block_bytes({3, 2, 6, DType::kF16}), kv_block_bytes(bf16));
  // int8: codes, and a float scale for each token and head of K and of V.
  EXPECT_EQ(kv_block_bytes({3, 2, 6, DType::kI8}), 3u * 2 * 2 * 16 * (6 + 4));
  KvStorage storage(bf16, 5);
  EXPECT_EQ(storage.num_blocks(), 5);
  EXPECT_EQ(storage.bytes(), 5 * kv_block_bytes(bf16));
}

TEST(KvStorage, ScalesLieBehindTheCodes) {
  KvStorage storage({1, 2, 6, DType::kI8}, 2);
  const PagedKvView view = storage.layer(0);
  uint8_t *const k = view.k(BlockId{1}, 1), *const v = view.v(BlockId{1}, 1);
  EXPECT_EQ(reinterpret_cast<uint8_t*>(view.scales(k)), k + 6 * 16);
  EXPECT_EQ(reinterpret_cast<uint8_t*>(view.scales(k) + 16), v);
  EXPECT_EQ(view.k(BlockId{0}, 0) + storage.bytes(), reinterpret_cast<uint8_t*>(view.scales(v) + 16));
}

TEST(KvStorage, AreasOfLayersBlocksAndHeadsDoNotOverlap) {
  KvStorage storage({3, 2, 6, DType::kF32}, 5);
  const size_t area = 16 * 6 * 4;
  std::set<uint8_t*> seen;
  for (int layer = 0; layer < 3; ++layer) {
    const PagedKvView view = storage.layer(layer);
    EXPECT_EQ(view.num_kv_heads, 2);
    EXPECT_EQ(view.head_dim, 6);
    EXPECT_EQ(view.dtype, DType::kF32);
    for (int block = 0; block < 5; ++block) {
      for (int head = 0; head < 2; ++head) {
        for (uint8_t* at : {view.k(BlockId{block}, head), view.v(BlockId{block}, head)}) {
          seen.insert(at);
          for (size_t i = 0; i < area; ++i) ASSERT_EQ(at[i]++, 0);  // zero-filled, and touched only once
        }
      }
    }
  }
  EXPECT_EQ(seen.size(), 3u * 5 * 2 * 2);
}

TEST(KvStorage, CopyBlockCopiesAllLayersAndHeadsAndNothingElse) {
  KvStorage storage({2, 3, 4, DType::kBF16}, 3);
  const size_t block_bytes = kv_block_bytes({1, 3, 4, DType::kBF16});
  for (int layer = 0; layer < 2; ++layer) {
    for (int block = 0; block < 3; ++block) {
      std::memset(storage.layer(layer).k(BlockId{block}, 0), 16 * layer + block + 1, block_bytes);
    }
  }
  storage.copy_block(BlockId{2}, BlockId{0});
  for (int layer = 0; layer < 2; ++layer) {
    const int expected[] = {16 * layer + 3, 16 * layer + 2, 16 * layer + 3};
    for (int block = 0; block < 3; ++block) {
      const uint8_t* at = storage.layer(layer).k(BlockId{block}, 0);
      for (size_t i = 0; i < block_bytes; ++i) ASSERT_EQ(at[i], expected[block]);
    }
  }
}

TEST(KvStorageDeathTest, RejectsShapesThatNoKernelReads) {
  EXPECT_DEATH(KvStorage({1, 1, 7, DType::kBF16}, 1), "head_dim 7 is odd");
  EXPECT_DEATH(KvStorage({1, 1, 514, DType::kI8}, 1), "head_dim 514");
}

}  // namespace
}  // namespace pagoda
