#include "engine/step_budget.h"

#include <gtest/gtest.h>

#include <vector>

#include "engine/tests/engine_fixture.h"

namespace pagoda::engine {
namespace {

// A machine whose steps take a fixed time, plus one per decoding sequence, plus one per prompt token.
struct Machine {
  double fixed_s = 0.008, decode_token_s = 0.0005, prompt_token_s = 0.0004;

  double step_s(int64_t decodes, int64_t prompt_tokens) const {
    return fixed_s + decode_token_s * static_cast<double>(decodes) +
           prompt_token_s * static_cast<double>(prompt_tokens);
  }
  // One step of a prompt without end beside `decodes` sequences; the time it took.
  double mixed_step(StepBudget& budget, int64_t decodes) const {
    const int64_t prompt_tokens = budget.prompt_tokens(decodes);
    const double seconds = step_s(decodes, prompt_tokens);
    budget.observe(decodes + prompt_tokens, decodes, seconds);
    return seconds;
  }
};

// Steps until the budget has settled; most are needed where no decode-only step was ever seen.
constexpr int kSettle = 40;

TEST(StepBudgetTest, WithoutATargetEveryStepGetsEverything) {
  StepBudget budget(0, 256);
  budget.observe(256, 8, 100.0);
  EXPECT_EQ(budget.prompt_tokens(0), 256);
  EXPECT_EQ(budget.prompt_tokens(8), 256);
}

TEST(StepBudgetTest, NobodyDecodesNobodyWaits) {
  StepBudget budget(0.001, 256);
  EXPECT_EQ(budget.prompt_tokens(0), 256);
  budget.observe(256, 0, 10.0);
  EXPECT_EQ(budget.prompt_tokens(0), 256);
}

TEST(StepBudgetTest, StartsWithOneBlockAndSettlesBelowTheTarget) {
  const Machine machine;
  for (const bool saw_decodes : {false, true}) {
    for (const int64_t decodes : {1, 7, 16, 60}) {
      StepBudget budget(0.080, 512);
      EXPECT_EQ(budget.prompt_tokens(decodes), 16);
      if (saw_decodes) budget.observe(decodes, decodes, machine.step_s(decodes, 0));
      for (int i = 0; i < kSettle; ++i) machine.mixed_step(budget, decodes);
      for (int i = 0; i < 50; ++i) EXPECT_NEAR(machine.mixed_step(budget, decodes), 0.080, 0.004) << decodes;
    }
  }
}

TEST(StepBudgetTest, StaysWithinItsBounds) {
  Machine slow;
  slow.fixed_s = 1.0;  // the target is out of reach
  StepBudget budget(0.050, 200);
  for (int i = 0; i < 100; ++i) {
    slow.mixed_step(budget, 4);
    ASSERT_EQ(budget.prompt_tokens(4), 16);
  }
  Machine fast;
  fast.fixed_s = 0.0001;
  fast.prompt_token_s = 0.000001;
  for (int i = 0; i < 200; ++i) fast.mixed_step(budget, 4);
  EXPECT_EQ(budget.prompt_tokens(4), 200);
  EXPECT_EQ(StepBudget(0.05, 5).prompt_tokens(1), 5) << "a budget below a block is the budget";
}

TEST(StepBudgetTest, FollowsAMachineThatGetsSlowerAndFaster) {
  Machine machine;
  StepBudget budget(0.080, 512);
  for (int i = 0; i < kSettle; ++i) machine.mixed_step(budget, 8);
  const int64_t before = budget.prompt_tokens(8);
  // A neighbour takes half of the machine.
  const Machine half{2 * machine.fixed_s, 2 * machine.decode_token_s, 2 * machine.prompt_token_s};
  for (int i = 0; i < kSettle; ++i) half.mixed_step(budget, 8);
  EXPECT_LT(budget.prompt_tokens(8), before / 2);
  EXPECT_NEAR(half.mixed_step(budget, 8), 0.080, 16 * half.prompt_token_s);
  for (int i = 0; i < kSettle; ++i) machine.mixed_step(budget, 8);
  EXPECT_NEAR(static_cast<double>(budget.prompt_tokens(8)), static_cast<double>(before), 16);
}

TEST(StepBudgetTest, OneStallIsForgottenSoon) {
  const Machine machine;
  StepBudget budget(0.080, 512);
  for (int i = 0; i < kSettle; ++i) machine.mixed_step(budget, 8);
  const int64_t before = budget.prompt_tokens(8);
  budget.observe(8 + before, 8, 30.0);
  EXPECT_LT(budget.prompt_tokens(8), before);
  for (int i = 0; i < 10; ++i) machine.mixed_step(budget, 8);
  EXPECT_GE(budget.prompt_tokens(8), before * 8 / 10);
}

TEST(StepBudgetTest, TheTailOfAPromptSaysLittle) {
  const Machine machine;
  StepBudget budget(0.080, 512);
  for (int i = 0; i < kSettle; ++i) machine.mixed_step(budget, 8);
  const int64_t before = budget.prompt_tokens(8);
  budget.observe(8 + 1, 8, machine.step_s(8, 1) * 1.2);
  EXPECT_GE(budget.prompt_tokens(8), before * 8 / 10);
}

TEST(StepBudgetTest, PromptsAloneTellWhatATokenCosts) {
  const Machine machine;
  StepBudget budget(0.080, 512);
  budget.observe(512, 0, machine.step_s(0, 512));
  EXPECT_GE(budget.prompt_tokens(4), 128) << "the first mixed step needn't start from one block";
  EXPECT_LE(machine.step_s(4, budget.prompt_tokens(4)), 0.090);
}

// The engine over a clock that the model moves by the cost of each token.
class ItlTargetTest : public ::testing::Test {
 protected:
  struct Step {
    int64_t tokens;
    double seconds;
  };

  // Runs a stream of 150 tokens, and from its tenth on a prompt of 900; the steps with tokens of both.
  std::vector<Step> mixed_steps(int64_t target_ms) {
    options_.itl_target_ms = target_ms;
    options_.max_num_batched_tokens = 256;
    std::vector<Step> steps;
    EngineObserver observer;
    observer.on_step = [&](int64_t tokens, double seconds) { steps.push_back({tokens, seconds}); };
    EngineHarness harness(options_, observer);
    harness.model().on_forward = [&](const model::ForwardInput& input) {
      harness.clock().advance(std::chrono::microseconds(5000 + 250 * std::ssize(input.tokens)));
    };
    const EngineRequest stream = harness.request(random_prompt(10, 1), 150),
                        prompt = harness.request(random_prompt(900, 2), 3);
    harness.submit(stream);
    harness.steps(10);
    steps.clear();
    const Received& got = harness.submit(prompt);
    while (got.choices[0].tokens.empty()) harness.step();
    const auto mixed = std::move(steps);
    harness.run();
    expect_reference(stream, harness.received(stream.id), options_);
    expect_reference(prompt, got, options_);
    return mixed;
  }

  EngineOptions options_ = test_options(200);
};

TEST_F(ItlTargetTest, StepsStayNearTheTargetAndResultsAreTheSame) {
  const auto fixed = mixed_steps(0);
  ASSERT_EQ(fixed.size(), 4u);
  EXPECT_EQ(fixed[0].tokens, 256);
  const auto adapted = mixed_steps(30);
  ASSERT_GT(adapted.size(), 8u);
  for (const Step& step : adapted) EXPECT_LE(step.seconds, 0.030 + 16 * 0.00025);
  EXPECT_GT(adapted[adapted.size() - 2].tokens, 64) << "the target leaves room for 100 tokens";
}

TEST_F(ItlTargetTest, AnImpossibleTargetStillRunsABlockAStep) {
  const auto steps = mixed_steps(1);
  EXPECT_EQ(steps.size(), 57u);  // 900 tokens in blocks of 16
  for (const Step& step : steps) EXPECT_LE(step.tokens, 17);
}

TEST_F(ItlTargetTest, AloneAPromptGetsTheWholeBudget) {
  options_.itl_target_ms = 1;
  EngineHarness harness(options_);
  std::vector<int64_t> chunks;
  harness.model().on_forward = [&](const model::ForwardInput& input) {
    chunks.push_back(std::ssize(input.tokens));
    harness.clock().advance(std::chrono::milliseconds(50));
  };
  harness.submit(harness.request(random_prompt(150, 3), 1));
  harness.run();
  EXPECT_EQ(chunks, (std::vector<int64_t>{64, 64, 22}));
}

// A short prompt behind a long one must not wait for it, however few tokens a step has.
TEST_F(ItlTargetTest, AShortPromptIsNotStuckBehindALongOne) {
  options_.itl_target_ms = 1;
  EngineHarness harness(options_);
  harness.model().on_forward = [&](const model::ForwardInput&) {
    harness.clock().advance(std::chrono::milliseconds(50));
  };
  harness.submit(harness.request(random_prompt(10, 4), 100));
  harness.step();
  const Received& long_got = harness.submit(harness.request(random_prompt(900, 5), 1));
  harness.steps(2);
  const Received& short_got = harness.submit(harness.request(random_prompt(12, 6), 1));
  harness.steps(4);
  EXPECT_TRUE(short_got.done());
  EXPECT_TRUE(long_got.choices[0].tokens.empty());
  harness.run();
}

}  // namespace
}  // namespace pagoda::engine
