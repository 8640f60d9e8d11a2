#include "tensor/packed_weight.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "tensor/half.h"

namespace pagoda {
namespace {

// A small matrix in every form, packed panel by panel.
struct Matrix {
  PackedWeightSpec spec;
  std::vector<uint8_t> codes;
  std::vector<float> scales, offsets, values;
  PackedWeight packed;

  explicit Matrix(const PackedWeightSpec& s) : spec(s), packed(s) {
    std::mt19937 random(11);
    const auto rows = static_cast<size_t>(s.rows), depth = static_cast<size_t>(s.depth);
    const auto groups = static_cast<size_t>(packed.padded_depth() / s.group_size);
    codes.resize(rows * depth);
    values.resize(rows * depth);
    scales.resize(rows * groups);
    offsets.resize(rows * groups);
    const unsigned top = code_bits(s.layout) > 0 ? (1u << code_bits(s.layout)) - 1 : 0;
    for (auto& c : codes) c = static_cast<uint8_t>(random() & top);
    for (auto* list : {&values, &scales, &offsets}) {
      for (auto& v : *list)
        v = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 64.0f;  // exact in f16
    }
    for (int64_t panel = 0; panel < packed.num_panels(); ++panel) {
      const int64_t first = panel * kPanelRows;
      PanelSource source;
      source.num_rows = static_cast<int>(std::min<int64_t>(kPanelRows, s.rows - first));
      source.codes = codes.data() + first * s.depth;
      source.code_stride = s.depth;
      source.scales = scales.data() + first * static_cast<int64_t>(groups);
      source.offsets = offsets.data() + first * static_cast<int64_t>(groups);
      source.values = values.data() + first * s.depth;
      source.value_stride = s.depth;
      packed.pack_panel(panel, source);
    }
  }
};

PackedWeightSpec coded(WeightLayout layout, int64_t rows, int64_t depth, int group, bool offsets, int zero) {
  PackedWeightSpec spec;
  spec.layout = layout;
  spec.rows = rows;
  spec.depth = depth;
  spec.group_size = group;
  spec.has_offsets = offsets;
  spec.zero_point = zero;
  spec.scale_multiplier = 0.25f;
  spec.offset_multiplier = 0.5f;
  return spec;
}

TEST(PackedWeight, UnpackRowGivesTheFormulaForCodedLayouts) {
  for (const WeightLayout layout :
       {WeightLayout::kW8, WeightLayout::kW6, WeightLayout::kW5, WeightLayout::kW4}) {
    for (const int group : {16, 32, 64, 128}) {
      if (layout == WeightLayout::kW5 && group == 16) continue;
      for (const bool offsets : {false, true}) {
        const int zero = offsets ? 0 : (1 << (code_bits(layout) - 1)) + 3;
        const Matrix m(coded(layout, 37, 256, group, offsets, zero));
        std::vector<float> row(256);
        for (int64_t n = 0; n < 37; ++n) {
          m.packed.unpack_row(n, row);
          for (int64_t k = 0; k < 256; ++k) {
            const auto g = static_cast<size_t>(n * (256 / group) + k / group);
            float expected =
                m.scales[g] * 0.25f * static_cast<float>(m.codes[static_cast<size_t>(n * 256 + k)] - zero);
            if (offsets) expected += m.offsets[g] * 0.5f;
            ASSERT_EQ(row[static_cast<size_t>(k)], expected) << n << " " << k << " group " << group;
          }
        }
      }
    }
  }
}

TEST(PackedWeight, FloatLayoutsRoundTripAndPadWithZero) {
  for (const WeightLayout layout : {WeightLayout::kF32, WeightLayout::kBF16}) {
    PackedWeightSpec spec;
    spec.layout = layout;
    spec.rows = 33;
    spec.depth = 45;
    const Matrix m(spec);
    EXPECT_EQ(m.packed.padded_rows(), 64);
    EXPECT_EQ(m.packed.padded_depth(), 64);
    std::vector<float> row(45);
    for (int64_t n = 0; n < 33; ++n) {
      m.packed.unpack_row(n, row);
      for (size_t k = 0; k < 45; ++k) {
        const float value = m.values[static_cast<size_t>(n) * 45 + k];
        ASSERT_EQ(row[k], layout == WeightLayout::kF32 ? value : bf16_to_f32(f32_to_bf16(value)));
      }
    }
    // Row 33 (padding) of the second panel and columns from 45 on are zero bytes.
    const uint8_t* panel = m.packed.panel(1);
    const size_t element = layout == WeightLayout::kF32 ? 4 : 2;
    for (size_t k = 0; k < 64; ++k) {
      for (size_t r = 0; r < 32; ++r) {
        if (r < 1 && k < 45) continue;
        const size_t at = layout == WeightLayout::kF32 ? k * 32 + r : k / 2 * 64 + r * 2 + k % 2;
        for (size_t b = 0; b < element; ++b) ASSERT_EQ(panel[at * element + b], 0) << k << " " << r;
      }
    }
  }
}

// The byte positions of the comment in packed_weight.h: kernels are written against them.
TEST(PackedWeight, BytesLieWhereTheLayoutSays) {
  const Matrix w4(coded(WeightLayout::kW4, 32, 64, 32, true, 0));
  const uint8_t* p = w4.packed.panel(0) + (64 + 64 + 512);  // second group
  for (size_t n = 0; n < 32; ++n) {
    uint16_t scale, offset;
    std::memcpy(&scale, p + n * 2, 2);
    std::memcpy(&offset, p + 64 + n * 2, 2);
    EXPECT_EQ(f16_to_f32(scale), w4.scales[n * 2 + 1]);
    EXPECT_EQ(f16_to_f32(offset), w4.offsets[n * 2 + 1]);
    for (size_t k = 0; k < 32; k += 8) {
      for (size_t j = 0; j < 4; ++j) {
        const uint8_t byte = p[128 + k / 8 * 128 + n * 4 + j];
        EXPECT_EQ(byte & 15, w4.codes[n * 64 + 32 + k + j]);
        EXPECT_EQ(byte >> 4, w4.codes[n * 64 + 32 + k + 4 + j]);
      }
    }
  }
  const Matrix w8(coded(WeightLayout::kW8, 32, 64, 64, false, 128));
  EXPECT_EQ(w8.packed.panel_bytes(), 64u + 64 * 32);
  for (size_t n = 0; n < 32; ++n) {
    for (size_t k = 0; k < 64; ++k) {
      EXPECT_EQ(w8.packed.panel(0)[64 + k / 4 * 128 + n * 4 + k % 4], w8.codes[n * 64 + k]);
    }
  }
}

TEST(PackedWeight, HighBitsLieBehindTheLowFour) {
  const Matrix w6(coded(WeightLayout::kW6, 32, 32, 16, false, 32)),
      w5(coded(WeightLayout::kW5, 32, 64, 64, false, 16));
  EXPECT_EQ(w6.packed.panel_bytes(), 2 * (64u + 16 * 24));
  EXPECT_EQ(w5.packed.panel_bytes(), 64u + 64 * 20);
  const auto expect_byte = [](const uint8_t* p, size_t line, size_t lane, unsigned expected) {
    EXPECT_EQ(p[line * 128 + lane], expected) << "line " << line << " lane " << lane;
  };
  for (size_t n = 0; n < 32; ++n) {
    for (size_t j = 0; j < 4; ++j) {
      const auto code = [&](const Matrix& m, size_t k) {
        return unsigned{m.codes[n * static_cast<size_t>(m.spec.depth) + k + j]};
      };
      const uint8_t* const second = w6.packed.panel(0) + 64 + 16 * 24 + 64;  // columns 16 to 31
      expect_byte(second, 0, n * 4 + j, (code(w6, 16) & 15) | (code(w6, 20) & 15) << 4);
      expect_byte(second, 1, n * 4 + j, (code(w6, 24) & 15) | (code(w6, 28) & 15) << 4);
      expect_byte(
          second, 2, n * 4 + j,
          code(w6, 16) >> 4 | code(w6, 20) >> 4 << 2 | code(w6, 24) >> 4 << 4 | code(w6, 28) >> 4 << 6);
      const uint8_t* const half = w5.packed.panel(0) + 64 + 32 * 20;  // columns 32 to 63
      expect_byte(half, 3, n * 4 + j, (code(w5, 56) & 15) | (code(w5, 60) & 15) << 4);
      unsigned fifth = 0;
      for (size_t i = 0; i < 8; ++i) fifth |= code(w5, 32 + 4 * i) >> 4 << i;
      expect_byte(half, 4, n * 4 + j, fifth);
    }
  }
}

TEST(PackedWeight, PaddingOfCodedLayoutsIsZeroWeight) {
  const Matrix m(coded(WeightLayout::kW4, 3, 40, 32, false, 8));
  EXPECT_EQ(m.packed.padded_depth(), 64);
  const uint8_t* second = m.packed.panel(0) + 64 + 512;
  for (size_t k = 8; k < 32; k += 8) {  // columns 48.. of the padded depth
    for (size_t i = 0; i < 128; ++i) EXPECT_EQ(second[64 + k / 8 * 128 + i], 0x88);
  }
  for (size_t row = 3; row < 32; ++row)
    EXPECT_EQ(second[row * 2] | second[row * 2 + 1], 0) << "scale of row " << row;
}

TEST(PackedWeight, MultiplierKeepsScalesInTheNormalRange) {
  for (const float max_abs : {1e-30f, 3e-9f, 0.01f, 1.0f, 777.0f, 1e20f}) {
    const float m = f16_multiplier(max_abs);
    int exponent;
    EXPECT_EQ(std::frexp(m, &exponent), 0.5f) << "a power of two";
    EXPECT_LE(max_abs / m, 1024.0f);
    EXPECT_GT(max_abs / m, 256.0f);
  }
  EXPECT_EQ(f16_multiplier(0.0f), 1.0f);
  EXPECT_EQ(f16_multiplier(INFINITY), 1.0f);
}

TEST(PackedWeightDeathTest, ChecksTheSpec) {
  EXPECT_DEATH(PackedWeight(coded(WeightLayout::kW4, 32, 64, 24, false, 8)), "group size 24");
  EXPECT_DEATH(PackedWeight(coded(WeightLayout::kW4, 32, 96, 64, false, 8)), "depth 96");
  EXPECT_DEATH(PackedWeight(coded(WeightLayout::kW4, 32, 64, 32, false, 16)), "zero_point");
  EXPECT_DEATH(PackedWeight(coded(WeightLayout::kW6, 32, 64, 32, false, 64)), "zero_point");
  EXPECT_DEATH(PackedWeight(coded(WeightLayout::kW5, 32, 64, 16, false, 16)), "5 bits in groups of 16");
  EXPECT_DEATH(PackedWeight(coded(WeightLayout::kW8, 32, 64, 32, true, 1)), "exclude");
  EXPECT_DEATH(PackedWeight(coded(WeightLayout::kW8, 0, 64, 32, false, 1)), "shape 0 x 64");
}

TEST(PackedWeight, LayoutNames) {
  EXPECT_EQ(weight_layout_name(WeightLayout::kF32), "f32");
  EXPECT_EQ(weight_layout_name(WeightLayout::kBF16), "bf16");
  EXPECT_EQ(weight_layout_name(WeightLayout::kW8), "w8");
  EXPECT_EQ(weight_layout_name(WeightLayout::kW6), "w6");
  EXPECT_EQ(weight_layout_name(WeightLayout::kW5), "w5");
  EXPECT_EQ(weight_layout_name(WeightLayout::kW4), "w4");
}

TEST(PackedWeight, ScalesAreRoundedAsByTheScalarConversion) {
  // Normal and subnormal halves, ties of both, numbers that round to zero, to 65504 and to infinity.
  std::vector<float> numbers = {0.0f,     -0.0f,        0x1p-24f,     0x1p-25f, 0x1.8p-25f, 0x1.8p-24f,
                                0x1p-14f, 0x1.ffcp-15f, 0x1.ffep-15f, 65504.0f, 65519.0f,   65520.0f,
                                1e6f,     0x1.002p0f,   0x1.006p0f,   0x1p-149f};
  std::mt19937 random(3);
  while (numbers.size() < 32 * 64) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    const float near =
        std::ldexp(std::bit_cast<float>((static_cast<uint32_t>(random()) & 0x807fffff) | 0x3f800000),
                   static_cast<int>(random() % 48) - 30);
    numbers.push_back(near);
    if (std::isfinite(value)) numbers.push_back(value);
  }
  const PackedWeightSpec spec = coded(WeightLayout::kW8, 32, 64 * 16, 16, true, 0);
  PackedWeight packed(spec);
  const std::vector<uint8_t> codes(32 * 64 * 16);
  std::vector<float> offsets(numbers.rbegin(), numbers.rend());
  PanelSource source;
  source.codes = codes.data();
  source.code_stride = spec.depth;
  source.scales = numbers.data();
  source.offsets = offsets.data();
  packed.pack_panel(0, source);
  for (size_t row = 0; row < 32; ++row) {
    for (size_t group = 0; group < 64; ++group) {
      uint16_t scale, offset;
      const uint8_t* const at = packed.panel(0) + group * (128 + 512) + row * 2;
      std::memcpy(&scale, at, 2);
      std::memcpy(&offset, at + 64, 2);
      ASSERT_EQ(scale, f32_to_f16(numbers[row * 64 + group])) << numbers[row * 64 + group];
      ASSERT_EQ(offset, f32_to_f16(offsets[row * 64 + group])) << offsets[row * 64 + group];
    }
  }
}

TEST(PackedWeight, SharesMemoryThatItDoesNotOwnAlone) {
  PackedWeightSpec spec;
  spec.layout = WeightLayout::kF32;
  spec.rows = 33;
  spec.depth = 32;
  const size_t bytes = PackedWeight::bytes_for(spec);
  EXPECT_EQ(bytes, size_t{2} * 32 * 32 * 4);
  std::vector<float> values(33 * 32);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  std::weak_ptr<uint8_t> alive;
  PackedWeight second;
  {
    auto memory = share_buffer(AlignedBuffer(2 * bytes));
    std::memset(memory.get(), 0xff, 2 * bytes);  // pack_panel writes every byte, padding included
    alive = memory;
    PackedWeight first(spec, memory);
    second = PackedWeight(spec, std::shared_ptr<uint8_t>(memory, memory.get() + bytes));
    EXPECT_EQ(second.panel(0), first.panel(0) + first.bytes());
    for (int64_t panel = 0; panel < 2; ++panel) {
      PanelSource source;
      source.num_rows = panel == 0 ? 32 : 1;
      source.values = values.data() + panel * 32 * 32;
      source.value_stride = 32;
      second.pack_panel(panel, source);
    }
  }
  // The first weight and the pointer to the memory are gone; what the second one holds is not.
  EXPECT_FALSE(alive.expired());
  std::vector<float> row(32);
  second.unpack_row(32, row);
  EXPECT_EQ(row[31], 33 * 32 - 1);
  for (size_t i = 0; i < 32; ++i) {
    float padding;
    std::memcpy(&padding, second.panel(1) + (i * 32 + 1) * 4, 4);
    EXPECT_EQ(padding, 0.0f);
  }
  const PackedWeight copy = second;
  second = PackedWeight();
  EXPECT_FALSE(alive.expired());
  const PackedWeight read_only(spec, std::shared_ptr<const uint8_t>(alive.lock()));
  EXPECT_EQ(read_only.bytes(), bytes);
}

}  // namespace
}  // namespace pagoda
