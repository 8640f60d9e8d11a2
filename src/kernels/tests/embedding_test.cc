#include "kernels/embedding.h"

#include <gtest/gtest.h>

#include "kernels/tests/kernel_test_support.h"

namespace pagoda::kernels {
namespace {

using namespace testing;

TEST(Embedding, RowsOfEveryLayoutTimesTheScale) {
  ComputePool pool(2);
  for (const WeightLayout layout : {WeightLayout::kF32, WeightLayout::kBF16, WeightLayout::kW8,
                                    WeightLayout::kW6, WeightLayout::kW5, WeightLayout::kW4}) {
    PackedWeightSpec spec;
    spec.layout = layout;
    spec.rows = 70;
    spec.depth = 64;
    spec.scale_multiplier = 0.5f;
    const PackedWeight table = random_weight(spec, 1);
    const std::vector<TokenId> ids = {TokenId{69}, TokenId{0}, TokenId{31}, TokenId{32}, TokenId{69}};
    std::vector<float> out(5 * 80, 7.0f), row(64);
    embed(table, ids, 3.0f, {out.data(), 5, 64, 80}, pool);
    for (size_t t = 0; t < ids.size(); ++t) {
      table.unpack_row(ids[t].value, row);
      for (size_t k = 0; k < 64; ++k) EXPECT_EQ(out[t * 80 + k], row[k] * 3.0f);
      for (size_t k = 64; k < 80; ++k) EXPECT_EQ(out[t * 80 + k], 7.0f);
    }
  }
}

TEST(EmbeddingDeathTest, ChecksTheIds) {
  ComputePool pool(1);
  PackedWeightSpec spec;
  spec.rows = 5;
  spec.depth = 32;
  const PackedWeight table(spec);
  std::vector<float> out(32);
  const std::vector<TokenId> past = {TokenId{5}}, negative = {TokenId{-1}};
  EXPECT_DEATH(embed(table, past, 1, {out.data(), 1, 32, 32}, pool), "token 5 of 5");
  EXPECT_DEATH(embed(table, negative, 1, {out.data(), 1, 32, 32}, pool), "token -1");
}

}  // namespace
}  // namespace pagoda::kernels
