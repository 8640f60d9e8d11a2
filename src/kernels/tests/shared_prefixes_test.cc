#include "kernels/shared_prefixes.h"

#include <gtest/gtest.h>

#include "kernels/attention.h"
#include "kernels/tests/kernel_test_support.h"

namespace pagoda::kernels {
namespace {

using namespace testing;

// A sequence that decodes at `position`; blocks [0, shared) are those of prefix `prefix`, the rest its own.
struct Decoding {
  int prefix;
  int64_t shared_blocks, position;
};

class SharedPrefixesTest : public PerIsa {
 protected:
  static constexpr int kHeads = 6, kKvHeads = 2, kDim = 48, kBlocks = 600;

  // Block tables and sequences, one token each; one prompt chunk of 3 tokens comes first.
  void build(const std::vector<Decoding>& list) {
    int32_t next = 300;
    tables_.clear();
    sequences_.clear();
    const auto add = [&](const Decoding& d, int64_t tokens) {
      auto& table = tables_.emplace_back();
      for (int64_t b = 0; b * kKvBlockTokens < d.position + tokens; ++b) {
        const bool own = b >= d.shared_blocks;
        table.push_back(BlockId{own ? next++ : static_cast<int32_t>(d.prefix * 100 + b)});
      }
    };
    add({0, 20, 400}, 3);
    for (const Decoding& d : list) add(d, 1);
    ASSERT_LT(next, kBlocks);
    int64_t row = 0;
    for (size_t i = 0; i < tables_.size(); ++i) {
      AttentionSequence s;
      s.first_token = row;
      s.num_tokens = i == 0 ? 3 : 1;
      s.first_position = i == 0 ? 400 : list[i - 1].position;
      s.block_table = tables_[i];
      row += s.num_tokens;
      sequences_.push_back(s);
    }
    tokens_ = row;
  }

  std::vector<std::vector<BlockId>> tables_;
  std::vector<AttentionSequence> sequences_;
  int64_t tokens_ = 0;
};

TEST_P(SharedPrefixesTest, GroupsAreThoseWithEqualLeadingPartitions) {
  build({{0, 34, 700}, {1, 33, 800}, {0, 40, 1000}, {2, 90, 255}, {1, 16, 300}, {0, 15, 600}, {2, 90, 300}});
  SharedPrefixes shared(64, kHeads, kDim);
  shared.find(sequences_);
  ASSERT_EQ(shared.groups().size(), 2u);
  // 34 common blocks are two whole partitions; 15 are none; the prompt chunk (sequence 0) takes no part.
  EXPECT_EQ(std::vector<int32_t>(shared.groups()[0].members.begin(), shared.groups()[0].members.end()),
            (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(shared.groups()[0].partitions, 2);
  EXPECT_EQ(std::vector<int32_t>(shared.groups()[1].members.begin(), shared.groups()[1].members.end()),
            (std::vector<int32_t>{2, 5}));
  EXPECT_EQ(shared.groups()[1].partitions, 1);
  for (const int64_t alone : {0, 4, 6, 7}) EXPECT_EQ(shared.shared_partitions(alone), 0) << alone;
}

// Bit for bit, on one thread and on several, for groups of one tile of rows and of many.
TEST_P(SharedPrefixesTest, AttentionIsThatOfEverySequenceAlone) {
  std::vector<Decoding> list;
  for (int i = 0; i < 23; ++i) list.push_back({0, 35, 560 + 7 * (i % 5)});
  list.insert(list.end(), {{1, 64, 1030}, {1, 64, 1024}, {1, 48, 768}, {2, 0, 40}});
  build(list);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kI8}) {
    KvStorage kv({1, kKvHeads, kDim, dtype}, kBlocks);
    // The format of the areas does not matter here; the scales of int8 are floats, its codes may be anything.
    const bool halves = dtype_bytes(dtype) == 2;
    const std::vector<float> fill = random_floats(kv.bytes() / (halves ? 2 : 4), -2, 2, 3);
    for (size_t i = 0; i < fill.size(); ++i) {
      if (!halves) {
        reinterpret_cast<float*>(kv.layer(0).base)[i] = fill[i];
      } else if (dtype == DType::kF16) {
        reinterpret_cast<uint16_t*>(kv.layer(0).base)[i] = f32_to_f16(fill[i]);
      } else {
        reinterpret_cast<uint16_t*>(kv.layer(0).base)[i] = f32_to_bf16(fill[i]);
      }
    }
    const int64_t width = kHeads * kDim;
    const std::vector<float> q = random_floats(static_cast<size_t>(tokens_ * width), -2, 2, 4);
    SharedPrefixes shared(tokens_, kHeads, kDim);
    shared.find(sequences_);
    ASSERT_EQ(shared.groups().size(), 2u);
    AttentionParams params;
    params.num_heads = kHeads;
    params.scale = 0.1f;
    const auto run = [&](const SharedPrefixes* with, int threads) {
      ComputePool pool(threads);
      AttentionScratch scratch(tokens_, 1100, kHeads, kDim, threads);
      std::vector<float> out(q.size());
      attention({{q.data(), tokens_, width, width}, sequences_, kv.layer(0), with}, params,
                {out.data(), tokens_, width, width}, scratch, pool);
      return out;
    };
    const std::vector<float> alone = run(nullptr, 1);
    for (const int threads : {1, 3}) {
      const std::vector<float> together = run(&shared, threads);
      EXPECT_TRUE(same_bits(alone.data(), together.data(), alone.size())) << dtype_name(dtype);
    }
    params.window = 300;  // a window starts inside the shared part, somewhere else for everybody
    const std::vector<float> windowed = run(nullptr, 1);
    EXPECT_TRUE(same_bits(windowed.data(), run(&shared, 3).data(), windowed.size()));
  }
}

PAGODA_PER_ISA(SharedPrefixesTest);

}  // namespace
}  // namespace pagoda::kernels
