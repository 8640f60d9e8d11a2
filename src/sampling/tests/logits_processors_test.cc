#include "sampling/logits_processors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace pagoda::sampling {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<TokenId> ids(std::initializer_list<int32_t> values) {
  std::vector<TokenId> out;
  for (const int32_t v : values) out.push_back({v});
  return out;
}

struct Row {
  std::vector<float> logits;
  SamplingParams params;
  std::vector<TokenId> prompt, output;
  ProcessorScratch scratch;
  const std::vector<float>& process() {
    process_logits(logits, params, TokenHistory{prompt, output}, scratch);
    return logits;
  }
};

TEST(LogitsProcessorsTest, DefaultsChangeNothing) {
  Row row{{2, -1, 0, 7}, {}, ids({0, 1}), ids({2, 2}), {}};
  EXPECT_EQ(row.process(), (std::vector<float>{2, -1, 0, 7}));
}

TEST(LogitsProcessorsTest, RepetitionPenaltyFollowsTheSignOncePerToken) {
  Row row{{2, -1, 0, 2}, {}, ids({0, 1, 0}), ids({2, 0}), {}};
  row.params.repetition_penalty = 1.5f;
  row.process();
  EXPECT_FLOAT_EQ(row.logits[0], 1.3333334f);
  EXPECT_FLOAT_EQ(row.logits[1], -1.5f);
  EXPECT_EQ(row.logits[2], 0.0f);
  EXPECT_EQ(row.logits[3], 2.0f);
}

TEST(LogitsProcessorsTest, FrequencyAndPresenceCountTheOutputOnly) {
  Row row{{1, 1, 1}, {}, ids({0, 0, 1}), ids({1, 2, 2}), {}};
  row.params.frequency_penalty = 0.5f;
  row.params.presence_penalty = 0.25f;
  EXPECT_EQ(row.process(), (std::vector<float>{1, 0.25f, -0.25f}));
}

TEST(LogitsProcessorsTest, ScratchIsCleanAfterEachCall) {
  Row row{{4, 4, 4}, {}, ids({0}), ids({1, 1}), {}};
  row.params.repetition_penalty = 2.0f;
  row.params.frequency_penalty = 1.0f;
  row.process();
  EXPECT_EQ(row.logits, (std::vector<float>{2, 0, 4}));
  row.logits = {4, 4, 4};
  row.prompt = ids({2});
  row.output.clear();
  EXPECT_EQ(row.process(), (std::vector<float>{4, 4, 2}));
  EXPECT_EQ(std::count(row.scratch.seen.begin(), row.scratch.seen.end(), 0), 3);
  EXPECT_EQ(std::count(row.scratch.counts.begin(), row.scratch.counts.end(), 0), 3);
}

TEST(LogitsProcessorsTest, BiasIsAddedBeforeThePenalties) {
  Row row{{-1, 0}, {}, ids({0}), {}, {}};
  row.params.logit_bias = {{TokenId{0}, 3.0f}};
  row.params.repetition_penalty = 2.0f;
  EXPECT_EQ(row.process(), (std::vector<float>{1, 0}));
}

TEST(LogitsProcessorsTest, AllowedIdsMaskTheRestAndBiasCannotBringItBack) {
  Row row{{1, 2, 3, 4}, {}, {}, {}, {}};
  row.params.allowed_token_ids = ids({2, 0, 2});
  row.params.logit_bias = {{TokenId{3}, 100.0f}, {TokenId{0}, 1.0f}};
  EXPECT_EQ(row.process(), (std::vector<float>{2, -kInf, 3, -kInf}));
}

TEST(LogitsProcessorsTest, BadWordsMaskTheLastTokenAfterTheirHead) {
  Row row{{1, 1, 1, 1, 1}, {}, ids({3}), ids({0, 1}), {}};
  row.params.bad_words = {ids({4}), ids({1, 2}), ids({3, 0}), ids({0, 3}), ids({3, 0, 1, 0}), {}};
  EXPECT_EQ(row.process(), (std::vector<float>{1, 1, -kInf, 1, -kInf}));
}

TEST(LogitsProcessorsTest, StopTokensAreMaskedUntilMinTokens) {
  Row row{{1, 1, 1}, {}, {}, ids({0, 0}), {}};
  row.params.min_tokens = 3;
  row.params.stop_token_ids = ids({1});
  EXPECT_EQ(row.process(), (std::vector<float>{1, -kInf, 1}));
  row.logits = {1, 1, 1};
  row.output = ids({0, 0, 0});
  EXPECT_EQ(row.process(), (std::vector<float>{1, 1, 1}));
}

TEST(LogitsProcessorsTest, IdsOutsideTheRowAreIgnored) {
  Row row{{1, 2}, {}, ids({-1, 2, 1000000}), ids({-5, 2}), {}};
  row.params.repetition_penalty = 2.0f;
  row.params.presence_penalty = 1.0f;
  row.params.logit_bias = {{TokenId{2}, 1.0f}, {TokenId{-1}, 1.0f}};
  row.params.bad_words = {ids({7})};
  row.params.stop_token_ids = ids({9});
  row.params.min_tokens = 10;
  EXPECT_EQ(row.process(), (std::vector<float>{1, 2}));
}

TEST(LogitsProcessorsTest, SanitizeLeavesNoNanAndNoPositiveInfinity) {
  std::vector<float> row = {kNan, kInf, -kInf, 1.5f, -kNan};
  sanitize(row);
  EXPECT_EQ(row, (std::vector<float>{-kInf, std::numeric_limits<float>::max(), -kInf, 1.5f, -kInf}));
}

}  // namespace
}  // namespace pagoda::sampling
