#include "model/wide_groups.h"

#include <gtest/gtest.h>

#include <vector>

namespace pagoda::model {
namespace {

using kernels::ActivationBuffer;
using kernels::ActivationForm;
using kernels::WideGroups;

class WideGroupsTest : public ::testing::Test {
 protected:
  // One row of `groups` groups whose largest magnitudes are given.
  void observe(const void* input, const std::vector<float>& magnitudes) {
    std::vector<float> row(magnitudes.size() * 32, 0.0f);
    for (size_t g = 0; g < magnitudes.size(); ++g) row[g * 32 + 5] = -magnitudes[g];
    const auto depth = static_cast<int64_t>(row.size());
    const WideGroups all = WideGroups::all(depth);
    ActivationBuffer buffer(1, depth);
    buffer.begin({ActivationForm::kCoded, &all}, 1, depth);
    buffer.write_row(0, row.data());
    statistics_.observe(input, buffer.view());
  }
  std::vector<uint8_t> flags(const void* input, int64_t depth, double fraction) {
    const WideGroups wide = statistics_.choose(input, depth, fraction);
    return {wide.flags(), wide.flags() + wide.num_groups()};
  }
  GroupStatistics statistics_;
  int a_ = 0, b_ = 0;  // two inputs
};

TEST_F(WideGroupsTest, TheLargestSharesBecomeWide) {
  observe(&a_, {1, 9, 2, 3});
  EXPECT_EQ(flags(&a_, 128, 0.25), (std::vector<uint8_t>{0, 1, 0, 0}));
  EXPECT_EQ(flags(&a_, 128, 0.5), (std::vector<uint8_t>{0, 1, 0, 1}));
  EXPECT_EQ(flags(&a_, 128, 0.0), (std::vector<uint8_t>{0, 0, 0, 0}));
  EXPECT_EQ(flags(&a_, 128, 1.0), (std::vector<uint8_t>{1, 1, 1, 1}));
}

TEST_F(WideGroupsTest, InputsAreKeptApartAndAnUnknownOneIsWideThroughout) {
  observe(&a_, {1, 9});
  observe(&b_, {9, 1});
  EXPECT_EQ(flags(&a_, 64, 0.5), (std::vector<uint8_t>{0, 1}));
  EXPECT_EQ(flags(&b_, 64, 0.5), (std::vector<uint8_t>{1, 0}));
  EXPECT_EQ(flags(this, 96, 0.5), (std::vector<uint8_t>{1, 1, 1}));
}

// One token with huge activations everywhere else must not outvote the others.
TEST_F(WideGroupsTest, EveryRowHasTheSameSay) {
  observe(&a_, {1, 5, 1});
  observe(&a_, {1, 5, 1});
  observe(&a_, {1000, 1, 1});
  EXPECT_EQ(flags(&a_, 96, 0.34), (std::vector<uint8_t>{0, 1, 0}));
}

TEST_F(WideGroupsTest, RowsOfZerosOrNanCountForNothing) {
  observe(&a_, {0, 0});
  observe(&a_, {0, std::numeric_limits<float>::quiet_NaN()});
  observe(&a_, {1, 2});
  EXPECT_EQ(flags(&a_, 64, 0.5), (std::vector<uint8_t>{0, 1}));
}

TEST(WideFractions, TheLastFifthOfTheLayersIsWideThroughoutInTheSmallestModels) {
  EXPECT_LT(wide_fractions(23, 30, 576).gate_up, 1);
  EXPECT_EQ(wide_fractions(24, 30, 576).gate_up, 1);
  EXPECT_EQ(wide_fractions(24, 30, 576).attention_out, 1);
  EXPECT_EQ(wide_fractions(0, 1, 576).qkv, wide_fractions(0, 4, 576).qkv);
}

TEST(WideFractions, LargerModelsNeedNoMoreThanQkv) {
  for (const int layer : {0, 23}) {
    const WideFractions fractions = wide_fractions(layer, 24, 896);
    EXPECT_EQ(fractions.qkv, 1);
    EXPECT_EQ(fractions.attention_out + fractions.gate_up + fractions.down, 0);
  }
}

}  // namespace
}  // namespace pagoda::model
