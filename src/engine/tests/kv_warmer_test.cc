#include "engine/kv_warmer.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <chrono>
#include <vector>

namespace pagoda::engine {
namespace {

constexpr size_t kPage = 4096;

// Asks the system itself: a populate() that fails where it could work must fail the tests, not skip them.
bool system_can_populate() {
  void* const page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE
  const bool can = madvise(page, kPage, kPopulateWrite) == 0;
  munmap(page, kPage);
  return can;
}

// Pages of the first `bytes` that the system has given.
size_t resident_bytes(KvStorage& storage, size_t bytes) {
  std::vector<unsigned char> pages((bytes + kPage - 1) / kPage);
  EXPECT_EQ(mincore(storage.layer(0).base, bytes, pages.data()), 0);
  size_t count = 0;
  for (const unsigned char page : pages) count += page & 1;
  return count * kPage;
}

// Waits for the warmer's own thread; a warmer that never gets there fails the test.
bool becomes_resident(KvStorage& storage, size_t bytes) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (resident_bytes(storage, bytes) < bytes) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST(KvWarmer, StaysAheadOfTheBlocksInUse) {
  KvStorage storage({8, 2, 64, DType::kBF16}, 4096);  // 256 MiB and a little
  ASSERT_GT(storage.bytes(), KvWarmer::kLeastAhead + (size_t{100} << 20));
  if (!system_can_populate()) GTEST_SKIP() << "this kernel can't populate memory (before Linux 5.14)";
  KvWarmer warmer(storage);
  EXPECT_TRUE(becomes_resident(storage, KvWarmer::kLeastAhead));
  EXPECT_LT(resident_bytes(storage, storage.bytes()), storage.bytes() - (size_t{8} << 20))
      << "no more than asked";
  warmer.reached(500, 100);
  EXPECT_TRUE(becomes_resident(storage, KvWarmer::kLeastAhead + 500 * kv_block_bytes(storage.shape())));
  warmer.reached(4096, 1);  // past the end of the storage
  EXPECT_TRUE(becomes_resident(storage, storage.bytes()));
}

TEST(KvWarmer, KeepsRoomForTheBusiestMomentOnceMore) {
  KvStorage storage({8, 2, 64, DType::kBF16}, 8192);
  if (!system_can_populate()) GTEST_SKIP() << "this kernel can't populate memory (before Linux 5.14)";
  const size_t block = kv_block_bytes(storage.shape());
  const int most_used = static_cast<int>(KvWarmer::kLeastAhead / block) + 500;
  ASSERT_GT(storage.bytes(), (2 * most_used + 100) * block);
  KvWarmer warmer(storage);
  warmer.reached(most_used + 100, most_used);
  EXPECT_TRUE(becomes_resident(storage, (2 * most_used + 100) * block));
}

// A warmer that can't be stopped would hang here.
TEST(KvWarmer, EndsAtOnceWhileItWorksAndOnTinyStorages) {
  KvStorage large({4, 2, 64, DType::kBF16}, 4096), tiny({1, 1, 2, DType::kBF16}, 1);
  for (int i = 0; i < 20; ++i) {
    KvWarmer a(large), b(tiny);
    a.reached(i * 200, i);
  }
}

TEST(KvWarmer, ContentsStay) {
  KvStorage storage({4, 2, 64, DType::kBF16}, 64);
  storage.layer(0).base[12345] = 77;
  ASSERT_EQ(storage.populate(0, storage.bytes()), system_can_populate());
  EXPECT_EQ(storage.layer(0).base[12345], 77);
}

}  // namespace
}  // namespace pagoda::engine
