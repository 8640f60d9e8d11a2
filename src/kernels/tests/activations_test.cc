#include "kernels/activations.h"

#include <gtest/gtest.h>

#include "kernels/tests/kernel_test_support.h"
#include "tensor/half.h"

namespace pagoda::kernels {
namespace {

using namespace testing;

class ActivationsTest : public PerIsa {
 protected:
  ComputePool pool_{2};
};

TEST_P(ActivationsTest, Int8GroupsFollowTheDefinition) {
  const int64_t rows = 3, depth = 100;
  std::vector<float> x = random_floats(300, -3, 3, 1);
  std::fill_n(x.begin() + 100, 32, 0.0f);    // a zero group
  std::fill_n(x.begin() + 132, 32, 1e-35f);  // below the smallest scale: zero
  x[250] = -1e20f;                           // one value far above its neighbours
  const Converted buffer(x, rows, depth, kNarrowCodes, pool_);
  const Activations& a = buffer.view();
  ASSERT_EQ(a.depth, 128);
  ASSERT_EQ(a.rows, 3);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t g = 0; g < 4; ++g) {
      float max = 0;
      int sums[2] = {};
      const int8_t* codes = a.codes + r * 128 + g * 32;
      const float scale = a.scales[r * 4 + g];
      for (int64_t i = 0; i < 32; ++i) {
        const int64_t k = g * 32 + i;
        const float value = k < depth ? x[static_cast<size_t>(r * depth + k)] : 0.0f;
        max = std::max(max, std::abs(value));
        sums[i / 16] += codes[i];
        // Nearest code: off by half a step, and by the rounding of the quotient.
        if (scale > 0) {
          EXPECT_LE(std::abs(value / scale - static_cast<float>(codes[i])), 0.5001f);
        }
        if (k >= depth) {
          EXPECT_EQ(codes[i], 0);
        }
      }
      EXPECT_EQ(scale, max < 1e-30f ? 0.0f : max / 127.0f);
      EXPECT_EQ(a.sums[r * 8 + g * 2], sums[0]);
      EXPECT_EQ(a.sums[r * 8 + g * 2 + 1], sums[1]);
      EXPECT_EQ(a.scaled_sums[r * 4 + g], scale * static_cast<float>(sums[0] + sums[1]));
    }
  }
}

TEST_P(ActivationsTest, CodesRoundToNearestEven) {
  std::vector<float> x(32);
  for (size_t i = 0; i < 32; ++i) x[i] = static_cast<float>(i) * 0.5f - 8.0f;
  x[0] = 127.0f;  // scale 1
  const Converted buffer(x, 1, 32, kNarrowCodes, pool_);
  for (size_t i = 0; i < 32; ++i) EXPECT_EQ(buffer.view().codes[i], std::nearbyint(x[i])) << x[i];
}

TEST_P(ActivationsTest, NonFiniteValuesMakeTheScaleNan) {
  for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
    std::vector<float> x = random_floats(64, -1, 1, 2);
    x[40] = bad;
    const Converted buffer(x, 1, 64, kNarrowCodes, pool_);
    EXPECT_TRUE(std::isfinite(buffer.view().scales[0]));
    EXPECT_TRUE(std::isnan(buffer.view().scales[1]));
  }
}

TEST_P(ActivationsTest, FloatFormsRoundAndPadWithZeros) {
  for (const int64_t depth : {1, 7, 31, 32, 33, 63, 64, 77}) {
    const std::vector<float> x = random_floats(static_cast<size_t>(2 * depth), -3, 3, 3);
    for (const ActivationForm form : {ActivationForm::kF32, ActivationForm::kBF16}) {
      ActivationBuffer buffer(2, depth);
      buffer.begin({}, 2, depth);  // leave garbage behind
      const std::vector<float> garbage(static_cast<size_t>(depth), 9.0f);
      for (int64_t r = 0; r < 2; ++r) buffer.write_row(r, garbage.data());
      convert_activations({x.data(), 2, depth, depth}, {form}, buffer, pool_);
      const Activations& a = buffer.view();
      for (int64_t r = 0; r < 2; ++r) {
        for (int64_t k = 0; k < a.depth; ++k) {
          const float value = k < depth ? x[static_cast<size_t>(r * depth + k)] : 0.0f;
          const int64_t at = r * a.depth + k;
          if (form == ActivationForm::kF32) {
            ASSERT_EQ(a.f32[at], value);
          }
          if (form == ActivationForm::kBF16) {
            ASSERT_EQ(a.bf16[at], f32_to_bf16(value)) << value;
          }
        }
      }
    }
  }
}

TEST_P(ActivationsTest, Bf16KeepsInfinityAndNan) {
  std::vector<float> x(32, 0.0f);
  x[0] = INFINITY;
  x[1] = -INFINITY;
  x[2] = std::nanf("");
  x[3] = std::bit_cast<float>(0x7fffffffu);
  x[4] = 3.4e38f;  // rounds to infinity
  ActivationBuffer buffer(1, 32);
  convert_activations({x.data(), 1, 32, 32}, {ActivationForm::kBF16}, buffer, pool_);
  EXPECT_EQ(buffer.view().bf16[0], 0x7f80);
  EXPECT_EQ(buffer.view().bf16[1], 0xff80);
  EXPECT_TRUE(std::isnan(bf16_to_f32(buffer.view().bf16[2])));
  EXPECT_TRUE(std::isnan(bf16_to_f32(buffer.view().bf16[3])));
  EXPECT_EQ(buffer.view().bf16[4], 0x7f80);
}

// Each value within half a step of its group's resolution, the sums those of what the bytes stand for, in the
// second row as in the first.
TEST_P(ActivationsTest, WideGroupsSplitTheirCodesIntoTwoBytes) {
  constexpr size_t kDepth = 320, kGroups = kDepth / 32;
  std::vector<float> x = random_floats(2 * kDepth, -3, 3, 12);
  for (size_t i = 32; i < 64; ++i) x[i] = 0;
  x[kDepth] = 40.0f;  // an outlier: the others keep 1/812 of its resolution of 32512 steps
  for (const FormCase& form : {kMixedCodes, kWideCodes}) {
    const Converted buffer(x, 2, kDepth, form, pool_);
    const Activations& a = buffer.view();
    for (size_t r = 0; r < 2; ++r) {
      for (size_t g = 0; g < kGroups; ++g) {
        const bool wide = a.wide->flags()[g] != 0;
        const double scale = static_cast<double>(a.scales[r * kGroups + g]), limit = wide ? 32512 : 127;
        double largest = 0, sum = 0;
        for (size_t i = 0; i < 32; ++i) {
          const auto exact = static_cast<double>(x[r * kDepth + g * 32 + i]);
          const double value = value_at(a, static_cast<int64_t>(r), static_cast<int64_t>(g * 32 + i));
          // A low byte of -128 is stored as -127.
          EXPECT_NEAR(value, exact, scale * (wide ? 1.5 : 0.5001));
          largest = std::max(largest, std::abs(exact));
          sum += value;
        }
        EXPECT_NEAR(scale, largest / limit, largest / limit * 1e-6);
        const int both = a.sums[r * 2 * kGroups + g * 2] + a.sums[r * 2 * kGroups + g * 2 + 1];
        EXPECT_NEAR(both * scale, sum, std::abs(sum) * 1e-6 + 1e-12);
        EXPECT_EQ(a.scaled_sums[r * kGroups + g], a.scales[r * kGroups + g] * static_cast<float>(both));
      }
    }
  }
}

TEST_P(ActivationsTest, PiecesOfARowEqualTheRow) {
  const std::vector<float> x = random_floats(1100, -3, 3, 4);
  for (const FormCase& form : {FormCase{ActivationForm::kF32}, FormCase{ActivationForm::kBF16}, kNarrowCodes,
                               kMixedCodes, kWideCodes}) {
    const Converted whole(x, 1, 1100, form, pool_);
    ActivationBuffer pieces(1, 1100);
    pieces.begin({form.form, &whole.wide}, 1, 1100);
    for (int64_t at = 0; at < 1100; at += 512) {
      pieces.write_columns(0, at, x.data() + at, std::min<int64_t>(512, 1100 - at));
    }
    EXPECT_TRUE(same_activations(whole.view(), pieces.view()));
  }
}

// Whoever writes the columns, and in which pieces: the same as if the input had been in that order.
TEST_P(ActivationsTest, ColumnsComeInTheOrderAskedFor) {
  for (const int64_t depth : {96, 70}) {
    const int64_t rows = 3;
    const std::vector<float> x = random_floats(static_cast<size_t>(rows * depth), -3, 3, 5);
    ColumnOrder order;
    for (int64_t j = 0; j < depth; ++j) order.push_back(static_cast<int32_t>((j * 37 + 11) % depth));
    std::vector<float> sorted;
    for (int64_t r = 0; r < rows; ++r) {
      for (const int32_t column : order) sorted.push_back(x[static_cast<size_t>(r * depth + column)]);
    }
    for (const FormCase& form : {kNarrowCodes, kMixedCodes, kWideCodes}) {
      const Converted expected(sorted, rows, depth, form, pool_);
      const ActivationSpec spec{form.form, &expected.wide, &order};
      ActivationBuffer out(rows, depth);
      convert_activations({x.data(), rows, depth, depth}, spec, out, pool_);
      EXPECT_TRUE(same_activations(expected.view(), out.view()));
      EXPECT_EQ(out.view().order, &order);
      out.begin(spec, rows, depth);
      for (int64_t r = 0; r < rows; ++r) {
        out.write_columns(r, 32, x.data() + r * depth + 32, depth - 32);
        out.write_columns(r, 0, x.data() + r * depth, 32);
      }
      out.finish(pool_);
      EXPECT_TRUE(same_activations(expected.view(), out.view()));
      if (depth % kActivationGroup != 0) continue;
      out.begin(spec, rows, depth);
      for (int64_t g = 0; g < depth / 32; ++g) {
        std::vector<float> group;
        for (int64_t r = 0; r < rows; ++r) {
          const auto from = x.begin() + r * depth + g * 32;
          group.insert(group.end(), from, from + 32);
        }
        out.write_group(g, group.data());
      }
      out.finish(pool_);
      EXPECT_TRUE(same_activations(expected.view(), out.view()));
    }
  }
}

PAGODA_PER_ISA(ActivationsTest);

TEST(ActivationsTiers, CodesAgreeBitForBit) {
  const Isa before = current_isa();
  const std::vector<float> x = random_floats(4096, -3, 3, 6);
  ComputePool pool(1);
  for (const FormCase& form : {kNarrowCodes, kMixedCodes, kWideCodes}) {
    set_isa(Isa::kScalar);
    const Converted reference(x, 1, 4096, form, pool);
    for (const Isa isa : supported_isas()) {
      set_isa(isa);
      EXPECT_TRUE(same_activations(reference.view(), Converted(x, 1, 4096, form, pool).view()));
    }
  }
  set_isa(before);
}

TEST(ActivationsDeathTest, ChecksRoomAndColumns) {
  ActivationBuffer buffer(2, 64);
  EXPECT_DEATH(buffer.begin({}, 3, 64), "3 rows, room for 2");
  EXPECT_DEATH(buffer.begin({}, 1, 65), "depth 65");
  const WideGroups wide = WideGroups::all(50), short_by_one = WideGroups::all(32);
  EXPECT_DEATH(buffer.begin({ActivationForm::kCoded, &short_by_one}, 1, 50), "wide groups for depth 64");
  const ColumnOrder order(49, 0);
  EXPECT_DEATH(buffer.begin({ActivationForm::kCoded, &wide, &order}, 1, 50), "an order for a depth of 50");
  buffer.begin({ActivationForm::kCoded, &wide}, 1, 50);
  const std::vector<float> x(64);
  EXPECT_DEATH(buffer.write_columns(0, 16, x.data(), 34), "columns 16");
  EXPECT_DEATH(buffer.write_columns(0, 0, x.data(), 20), "columns 0");
  EXPECT_DEATH(buffer.write_columns(1, 0, x.data(), 50), "row 1");
}

}  // namespace
}  // namespace pagoda::kernels
