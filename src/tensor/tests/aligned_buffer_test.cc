#include "tensor/aligned_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace pagoda {
namespace {

uintptr_t address(const AlignedBuffer& buffer) {
  return reinterpret_cast<uintptr_t>(buffer.data());
}

TEST(AlignedBuffer, IsZeroFilledAndAligned) {
  for (const size_t bytes : {size_t{1}, size_t{63}, size_t{4096}, size_t{1} << 20, (size_t{2} << 20) + 5}) {
    AlignedBuffer buffer(bytes);
    ASSERT_EQ(buffer.size(), bytes);
    EXPECT_EQ(address(buffer) % (bytes >= size_t{2} << 20 ? size_t{2} << 20 : 64), 0u) << bytes;
    EXPECT_TRUE(std::all_of(buffer.data(), buffer.data() + bytes, [](uint8_t b) { return b == 0; })) << bytes;
    buffer.data()[bytes - 1] = 7;  // the last byte is ours
    EXPECT_EQ(buffer.as<uint8_t>()[bytes - 1], 7);
  }
}

TEST(AlignedBuffer, SizeZeroIsNull) {
  const AlignedBuffer none(0), fresh;
  EXPECT_EQ(none.data(), nullptr);
  EXPECT_EQ(none.size(), 0u);
  EXPECT_EQ(fresh.data(), nullptr);
}

TEST(AlignedBuffer, MoveHandsOverTheMemory) {
  AlignedBuffer first(100);
  first.data()[3] = 42;
  const uint8_t* const memory = first.data();
  AlignedBuffer second(std::move(first));
  EXPECT_EQ(second.data(), memory);
  EXPECT_EQ(second.size(), 100u);
  AlignedBuffer third(50);
  third = std::move(second);
  EXPECT_EQ(third.data(), memory);
  EXPECT_EQ(third.data()[3], 42);
}

}  // namespace
}  // namespace pagoda
