#include "model/loader/gguf_blocks.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "tensor/half.h"

namespace pagoda::model {
namespace {

constexpr uint32_t kQ4_0 = 2, kQ5_0 = 6, kQ8_0 = 8;

TEST(GgufBlocks, EveryHalfIsReadExactly) {
  const BlockFormat& format = *find_block_format(kQ8_0);
  std::vector<uint8_t> blocks(size_t{65536} * 34);
  for (uint32_t half = 0; half < 65536; ++half) {
    const auto bits = static_cast<uint16_t>(half);
    std::memcpy(blocks.data() + half * 34, &bits, 2);
  }
  std::vector<float> scales(65536);
  format.read_scales(blocks.data(), 65536, scales.data(), nullptr);
  for (uint32_t half = 0; half < 65536; ++half) {
    const float expected = f16_to_f32(static_cast<uint16_t>(half));
    ASSERT_EQ(std::bit_cast<uint32_t>(scales[half]), std::bit_cast<uint32_t>(expected)) << half;
  }
}

TEST(GgufBlocks, RangeIsTheLargestMagnitudeOfAllBlocks) {
  std::mt19937 random(5);
  for (const uint32_t type : {2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 20, 23}) {
    const BlockFormat& format = *find_block_format(type);
    constexpr size_t kBlocks = 37;
    const auto groups = static_cast<size_t>(format.groups_per_block());
    std::vector<uint8_t> blocks(kBlocks * static_cast<size_t>(format.block_bytes));
    for (auto& byte : blocks) byte = static_cast<uint8_t>(random() & 0x3b);  // halves stay finite
    std::vector<float> scales(kBlocks * groups), offsets(kBlocks * groups, 0.0f);
    format.read_scales(blocks.data(), kBlocks, scales.data(), offsets.data());
    float max_scale = 0, max_offset = 0;
    for (const float scale : scales) max_scale = std::max(max_scale, std::fabs(scale));
    for (const float offset : offsets) max_offset = std::max(max_offset, std::fabs(offset));
    const MatrixReader::Range range = format.range(blocks.data(), kBlocks);
    EXPECT_EQ(range.max_scale, max_scale) << type;
    EXPECT_EQ(range.max_offset, max_offset) << type;
    EXPECT_GT(range.max_scale, 0) << type;
  }
}

TEST(GgufBlocks, RangeShowsNumbersThatAreNone) {
  for (const uint16_t bad : {uint16_t{0x7c00}, uint16_t{0xfc00}, uint16_t{0x7e00}, uint16_t{0xfe01}}) {
    const BlockFormat& format = *find_block_format(kQ4_0);
    std::vector<uint8_t> blocks(9 * 18, 0x11);
    std::memcpy(blocks.data() + 5 * 18, &bad, 2);
    EXPECT_FALSE(std::isfinite(format.range(blocks.data(), 9).max_scale)) << bad;
  }
}

TEST(GgufBlocks, FifthBitsReachTheirElements) {
  const BlockFormat& format = *find_block_format(kQ5_0);
  for (int element = 0; element < 32; ++element) {
    uint8_t block[22] = {};
    block[2 + element / 8] = static_cast<uint8_t>(1 << element % 8);
    block[6 + element % 16] = element < 16 ? 0x0a : 0xa0;
    uint8_t codes[32];
    format.read_codes(block, 1, codes);
    for (int j = 0; j < 32; ++j) EXPECT_EQ(codes[j], j == element ? 26 : 0) << element;
  }
}

}  // namespace
}  // namespace pagoda::model
