#include "cli/sizing.h"

#include <gtest/gtest.h>

namespace pagoda::cli {
namespace {

TEST(ParseCountTest, TakesVllmsForms) {
  EXPECT_EQ(*parse_count("4096", "--max-model-len"), 4096);
  EXPECT_EQ(*parse_count("32k", "--max-model-len"), 32000);
  EXPECT_EQ(*parse_count("32K", "--max-model-len"), 32768);
  EXPECT_EQ(*parse_count("2G", "--kv-cache-memory-bytes"), int64_t{2} << 30);
}

TEST(ParseCountTest, NamesFlagAndValue) {
  for (const char* bad :
       {"", "k", "-1", "0", "1.5k", "12x", "9223372036854775807K", "99999999999999999999"}) {
    const auto result = parse_count(bad, "--max-model-len");
    ASSERT_FALSE(result) << bad;
    EXPECT_NE(result.error().message.find("--max-model-len is '" + std::string(bad) + "'"),
              std::string::npos);
  }
}

MemoryRequest smollm2() {
  MemoryRequest request;
  request.memory_limit = uint64_t{24} << 30;
  request.weight_bytes = 90 << 20;
  request.max_model_len = 8192;
  request.max_num_seqs = 128;
  request.kv_shape = {30, 3, 64, DType::kBF16};
  return request;
}

TEST(PlanMemoryTest, DefaultIsCappedAtFourGib) {
  const auto plan = plan_memory(smollm2());
  ASSERT_TRUE(plan);
  EXPECT_LE(plan->kv_bytes, uint64_t{4} << 30);
  EXPECT_GT(plan->kv_bytes, uint64_t{3} << 30);
  EXPECT_EQ(plan->kv_tokens, int64_t{plan->num_blocks} * 16);
}

TEST(PlanMemoryTest, NeverMoreThanAllSequencesNeed) {
  MemoryRequest request = smollm2();
  request.max_num_seqs = 2;
  const auto plan = plan_memory(request);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->kv_tokens, 2 * 8192);
}

TEST(PlanMemoryTest, FlagIsObeyedAndTooLittleIsRefusedByName) {
  MemoryRequest request = smollm2();
  request.kv_bytes = uint64_t{1} << 30;
  EXPECT_LE(plan_memory(request)->kv_bytes, uint64_t{1} << 30);
  request.kv_bytes = 1 << 20;
  const auto refused = plan_memory(request);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("--kv-cache-memory-bytes"), std::string::npos);
  EXPECT_NE(refused.error().message.find("1 MiB"), std::string::npos);
}

TEST(PlanMemoryTest, WeightsAboveTheLimitLeaveNothing) {
  MemoryRequest request = smollm2();
  request.weight_bytes = uint64_t{30} << 30;
  EXPECT_FALSE(plan_memory(request));
}

}  // namespace
}  // namespace pagoda::cli
