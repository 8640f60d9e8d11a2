// Speculation inside the engine: the same output in fewer steps, and nobody pays for a draft.

#include <gtest/gtest.h>

#include "engine/step_budget.h"
#include "engine/tests/engine_fixture.h"

namespace pagoda::engine {
namespace {

EngineOptions options_with_drafts(int num_blocks) {
  EngineOptions options = test_options(num_blocks);
  options.speculation = {.num_tokens = 16, .min_match = 3, .max_match = 8};
  return options;
}

class SpeculationTest : public ::testing::Test {
 protected:
  // A new engine over repeating text.
  EngineHarness& start(const EngineOptions& options, EngineObserver observer = {}) {
    options_ = options;
    harness_.emplace(options, std::move(observer), /*num_threads=*/2, FakeText::kRepeating);
    return *harness_;
  }
  void expect_exact(const EngineRequest& request) {
    expect_reference(request, harness_->received(request.id), options_, FakeText::kRepeating);
  }
  EngineStats stats() { return harness_->engine().stats(); }

  EngineOptions options_;
  std::optional<EngineHarness> harness_;
};

TEST_F(SpeculationTest, RepeatingTextTakesFewerStepsForTheSameTokens) {
  uint64_t steps[2];
  for (const bool on : {false, true}) {
    EngineOptions options = options_with_drafts(100);
    if (!on) options.speculation.num_tokens = 0;
    EngineHarness& harness = start(options);
    EngineRequest r = harness.request(random_prompt(30, 1), 400);
    r.sampling.num_logprobs = 3;
    harness.submit(r);
    harness.run();
    expect_exact(r);
    steps[on ? 1 : 0] = stats().steps;
    EXPECT_EQ(stats().generation_tokens, 400u);
    // Each step brings one token, and one more for each accepted draft.
    EXPECT_EQ(stats().accepted_tokens, 400 - stats().steps);
    EXPECT_EQ(stats().drafts > 0, on);
    EXPECT_GE(stats().draft_tokens, stats().accepted_tokens);
  }
  EXPECT_EQ(steps[0], 400u);
  EXPECT_LT(steps[1], 200u);
}

TEST_F(SpeculationTest, SamplingWithPenaltiesAndBadWordsIsThatOfTheUndisturbedRun) {
  EngineHarness& harness = start(options_with_drafts(500));
  std::vector<EngineRequest> requests;
  for (int i = 0; i < 24; ++i) {
    EngineRequest r = harness.request(random_prompt(20 + i, static_cast<uint32_t>(i)), 150);
    r.n = i % 5 == 4 ? 3 : 1;
    r.sampling.temperature = i % 3 == 0 ? 0.0f : 0.5f * static_cast<float>(i % 3);
    r.sampling.seed = static_cast<uint64_t>(i);
    r.sampling.num_logprobs = 2;
    if (i % 4 == 1) r.sampling.repetition_penalty = 1.05f;
    if (i % 4 == 2) r.sampling.frequency_penalty = 0.05f;
    if (i % 4 == 3) r.sampling.presence_penalty = 0.5f;
    if (i % 6 == 0) r.sampling.bad_words = {{{3}, {24}}, {{11}}};
    if (i % 6 == 1) r.sampling.stop_token_ids = {{5}, {17}};
    if (i % 6 == 1) r.sampling.min_tokens = 40;
    if (i % 6 == 2) r.sampling.logit_bias = {{{7}, 3.0f}};
    requests.push_back(r);
    harness.submit(r);
    harness.run();
  }
  for (const EngineRequest& r : requests) expect_exact(r);
  EXPECT_GT(stats().accepted_tokens, 1000u);
  EXPECT_GT(stats().draft_tokens - stats().accepted_tokens, 300u);
}

TEST_F(SpeculationTest, DraftsAreWhatTheDecodingSequencesLeave) {
  for (const int num_seqs : {1, 3, 7, 8}) {
    EngineHarness& harness = start(options_with_drafts(500));
    int64_t most_rows = 0;
    for (int i = 0; i < num_seqs; ++i)
      harness.submit(harness.request(random_prompt(10, static_cast<uint32_t>(i)), 200));
    while (stats().generation_tokens < static_cast<uint64_t>(2 * num_seqs)) harness.step();
    harness.model().on_forward = [&](const model::ForwardInput& input) {
      if (std::ssize(input.sequences) < num_seqs) return;
      most_rows = std::max<int64_t>(most_rows, std::ssize(input.tokens));
    };
    harness.run();
    EXPECT_EQ(most_rows, kVerifyRows) << num_seqs << " sequences";
  }
}

TEST_F(SpeculationTest, NothingIsDraftedThatNobodyCouldTake) {
  for (int64_t length = 100; length < 116; ++length) {
    EngineOptions options = options_with_drafts(100);
    options.max_model_len = length;
    EngineHarness& harness = start(options);
    int64_t last_position = 0, longest = 0;
    harness.model().on_forward = [&](const model::ForwardInput& input) {
      const auto& s = input.sequences.front();
      last_position = std::max(last_position, s.first_position + s.num_tokens - 1);
      if (s.first_position > 0) longest = std::max(longest, s.num_tokens);
    };
    const EngineRequest by_tokens = harness.request(random_prompt(20, 1), length - 30);
    harness.submit(by_tokens);
    harness.run();
    EXPECT_EQ(last_position, length - 10 - 2) << "the last token needs no slot";
    const EngineRequest by_length = harness.request(random_prompt(20, 2), 1000);
    harness.submit(by_length);
    harness.run();
    EXPECT_EQ(last_position, length - 2);
    EXPECT_EQ(longest, kVerifyRows);
    expect_exact(by_tokens);
    expect_exact(by_length);
  }
}

TEST_F(SpeculationTest, AStopTokenEndsTheRunAndNothingIsDraftedBehindIt) {
  EngineHarness& harness = start(options_with_drafts(100));
  // The prompt goes round in a circle through the token that ends the text, but may not do so at first.
  EngineRequest probe = harness.request(random_prompt(20, 1), 60);
  const Received& seen = harness.submit(probe);
  harness.run();
  const TokenId stop = seen.choices[0].tokens.back().token;
  EngineRequest r = harness.request(probe.prompt, 200);
  for (const auto& token : seen.choices[0].tokens) r.prompt.push_back(token.token);
  const auto num_prompt = std::ssize(r.prompt);
  r.sampling.stop_token_ids = {stop};
  r.sampling.min_tokens = 100;
  harness.model().on_forward = [&](const model::ForwardInput& input) {
    const auto& s = input.sequences.front();
    const auto rows =
        input.tokens.subspan(static_cast<size_t>(s.first_token), static_cast<size_t>(s.num_tokens));
    if (s.first_position >= num_prompt) {
      EXPECT_EQ(std::ranges::count(rows, stop), 0);
    }
  };
  const Received& got = harness.submit(r);
  harness.run();
  expect_exact(r);
  EXPECT_EQ(got.choices[0].finish, FinishReason::kStop);
  EXPECT_GT(stats().accepted_tokens, 50u);
}

// After every step a sequence holds the blocks of what is in the cache, as without drafts.
TEST_F(SpeculationTest, BlocksOfRejectedDraftsAreGivenBack) {
  EngineHarness& harness = start(options_with_drafts(100));
  const EngineRequest r = harness.request(random_prompt(20, 5), 300);
  harness.submit(r);
  int crossings = 0;
  harness.model().on_forward = [&](const model::ForwardInput& input) {
    const auto& s = input.sequences.front();
    const bool decodes = s.first_position >= 20;
    if (decodes && kKvBlockTokens - s.first_position % kKvBlockTokens < s.num_tokens) ++crossings;
  };
  while (harness.step()) {
    for (const auto& request : harness.engine().debug_blocks().requests) {
      const int64_t filled = request.prompt_tokens + request.output_tokens - 1;
      ASSERT_EQ(request.blocks, (filled + kKvBlockTokens - 1) / kKvBlockTokens);
    }
  }
  EXPECT_GT(crossings, 5) << "drafts that needed a block of their own";
  EXPECT_GT(stats().draft_tokens, stats().accepted_tokens);
  expect_exact(r);
}

// A pool that is just enough: who runs there is never preempted for a draft, and drafts make do with the
// blocks that there are.
TEST_F(SpeculationTest, NobodyIsPreemptedForADraft) {
  constexpr int kSeqs = 3;
  // 20 + 77 - 1 slots each: 6 blocks, filled to the last slot.
  EngineHarness& harness = start(options_with_drafts(kSeqs * 6));
  std::vector<EngineRequest> requests;
  for (uint32_t i = 0; i < kSeqs; ++i) {
    requests.push_back(harness.request(random_prompt(20, i), 77));
    harness.submit(requests.back());
  }
  harness.run();
  for (const EngineRequest& r : requests) expect_exact(r);
  EXPECT_EQ(stats().preemptions, 0u);
  EXPECT_GT(stats().accepted_tokens, 20u);
}

TEST_F(SpeculationTest, ScarceBlocksCutDraftsFirst) {
  int cut = 0;  // steps in which drafts filled a block to its end and the pool had no other one
  for (uint32_t round = 0; round < 20; ++round) {
    EngineHarness& harness = start(options_with_drafts(12));
    std::vector<EngineRequest> requests;
    for (uint32_t i = 0; i < 6; ++i) {
      requests.push_back(harness.request(random_prompt(25, 10 * round + i), 120));
      harness.submit(requests.back());
    }
    harness.model().on_forward = [&](const model::ForwardInput& input) {
      int64_t blocks = 0, at_the_end = 0;
      for (const auto& s : input.sequences) {
        const int64_t room = std::ssize(s.block_table) * kKvBlockTokens;
        blocks += std::ssize(s.block_table);
        const bool decodes = s.first_position > 25 && s.num_tokens > 1 && s.num_tokens <= kVerifyRows;
        if (decodes && s.first_position + s.num_tokens == room) ++at_the_end;
      }
      if (blocks == options_.num_blocks && at_the_end > 0) ++cut;
    };
    harness.run();
    for (const EngineRequest& r : requests) expect_exact(r);
    EXPECT_GT(stats().preemptions, 0u);
    EXPECT_GT(stats().accepted_tokens, 50u);
  }
  EXPECT_GT(cut, 100);
}

TEST_F(SpeculationTest, WhatIsAcceptedIsFoundByTheNextTurn) {
  for (int64_t length = 100; length < 260; ++length) {
    EngineHarness& harness = start(options_with_drafts(100));
    const EngineRequest first = harness.request(random_prompt(20, 1), length);
    const Received& got = harness.submit(first);
    harness.run();
    EngineRequest second = harness.request(first.prompt, 5);
    for (const auto& token : got.choices[0].tokens) second.prompt.push_back(token.token);
    harness.submit(second);
    harness.run();
    expect_exact(second);
    // The last token of an output is not run.
    EXPECT_EQ(*harness.received(second.id).cached_tokens, (20 + length - 1) / 16 * 16);
  }
}

TEST_F(SpeculationTest, AStepHoldsNoMoreTokensThanItsBudget) {
  EngineOptions options = options_with_drafts(200);
  options.max_num_batched_tokens = 24;
  EngineHarness& harness = start(options);
  const EngineRequest decoding = harness.request(random_prompt(10, 1), 300);
  harness.submit(decoding);
  harness.steps(60);
  const EngineRequest prompt = harness.request(random_prompt(800, 2), 5);
  harness.submit(prompt);
  int64_t most = 0, least_for_prompt = 1000, most_drafts = 0;
  harness.model().on_forward = [&](const model::ForwardInput& input) {
    most = std::max<int64_t>(most, std::ssize(input.tokens));
    if (input.sequences.size() < 2 ||
        input.sequences[1].first_position + input.sequences[1].num_tokens >= 800)
      return;
    most_drafts = std::max(most_drafts, input.sequences[0].num_tokens - 1);
    least_for_prompt = std::min(least_for_prompt, input.sequences[1].num_tokens);
  };
  harness.run();
  EXPECT_EQ(most, 24);
  EXPECT_GT(most_drafts, 0) << "a sequence that decodes beside a prompt may have drafts";
  EXPECT_GE(least_for_prompt, kMinPromptTokens);
  expect_exact(decoding);
  expect_exact(prompt);
}

// A target that the machine misses with the least share of a prompt leaves no time for drafts.
TEST_F(SpeculationTest, BesidePromptsDraftsKeepToTheInterTokenTarget) {
  for (const int64_t target_ms : {1, 200}) {
    EngineOptions options = options_with_drafts(300);
    options.itl_target_ms = target_ms;
    EngineHarness& harness = start(options);
    const EngineRequest decoding = harness.request(random_prompt(10, 1), 400);
    harness.submit(decoding);
    harness.steps(40);
    int64_t most_drafts = 0, slowest_ms = 0;
    harness.model().on_forward = [&](const model::ForwardInput& input) {
      const int64_t ms = 10 + 4 * std::ssize(input.tokens);
      harness.clock().advance(std::chrono::milliseconds(ms));
      if (input.sequences.size() < 2 || input.sequences[1].first_position >= 900) return;
      most_drafts = std::max(most_drafts, input.sequences[0].num_tokens - 1);
      slowest_ms = std::max(slowest_ms, ms);
    };
    const EngineRequest prompt = harness.request(random_prompt(900, 2), 5);
    harness.submit(prompt);
    harness.run();
    expect_exact(decoding);
    expect_exact(prompt);
    if (target_ms == 1) {
      EXPECT_EQ(most_drafts, 0);
    } else {
      EXPECT_GT(most_drafts, 0);
      EXPECT_LE(slowest_ms, target_ms * 11 / 10);
    }
  }
}

// Where drafts cost nothing, as while the weights are read, they say nothing about the price of a prompt's
// tokens.
TEST_F(SpeculationTest, DraftsDoNotTeachTheBudgetWhatAPromptCosts) {
  EngineOptions options = options_with_drafts(300);
  options.max_num_batched_tokens = 512;
  options.itl_target_ms = 200;
  EngineHarness& harness = start(options);
  int64_t slowest_ms = 0;
  harness.model().on_forward = [&](const model::ForwardInput& input) {
    int64_t ms = 50;
    for (const auto& s : input.sequences) ms += s.num_tokens > kVerifyRows ? 5 * s.num_tokens : 0;
    slowest_ms = std::max(slowest_ms, ms);
    harness.clock().advance(std::chrono::milliseconds(ms));
  };
  const EngineRequest decoding = harness.request(random_prompt(10, 1), 500);
  harness.submit(decoding);
  harness.step();
  while (stats().drafts < 40) harness.step();
  slowest_ms = 0;
  const EngineRequest prompt = harness.request(random_prompt(900, 2), 5);
  harness.submit(prompt);
  harness.run();
  EXPECT_LE(slowest_ms, 220);
  expect_exact(decoding);
  expect_exact(prompt);
}

TEST_F(SpeculationTest, EveryTokenHasItsEventAndItsGap) {
  std::vector<double> gaps;
  int64_t step_tokens = 0;
  EngineObserver observer{.on_request_end = {},
                          .on_inter_token = [&](double seconds) { gaps.push_back(seconds); },
                          .on_step = [&](int64_t tokens, double) { step_tokens += tokens; }};
  EngineHarness& harness = start(options_with_drafts(100), observer);
  harness.model().on_forward = [&](const model::ForwardInput&) {
    harness.clock().advance(std::chrono::milliseconds(10));
  };
  const EngineRequest r = harness.request(random_prompt(20, 1), 200);
  harness.submit(r);
  harness.run();
  expect_exact(r);
  ASSERT_EQ(gaps.size(), 199u);
  EXPECT_EQ(static_cast<uint64_t>(std::ranges::count(gaps, 0.0)), stats().accepted_tokens);
  double sum = 0;
  for (const double gap : gaps) sum += gap;
  EXPECT_NEAR(sum, 0.01 * static_cast<double>(stats().steps - 1), 1e-9);
  EXPECT_EQ(step_tokens, static_cast<int64_t>(20 + stats().steps - 1 + stats().draft_tokens));
}

TEST_F(SpeculationTest, AnAbortBetweenStepsLeavesNothingBehind) {
  EngineHarness& harness = start(options_with_drafts(100));
  const EngineRequest r = harness.request(random_prompt(20, 1), 300);
  const Received& got = harness.submit(r);
  while (stats().accepted_tokens < 40) harness.step();
  harness.engine().abort(r.id);
  harness.run();
  EXPECT_EQ(got.choices[0].finish, FinishReason::kAborted);
  const ReferenceOutput expected = reference_output(r, 0, kTestVocab, 1024, FakeText::kRepeating);
  for (size_t i = 0; i < got.choices[0].tokens.size(); ++i)
    EXPECT_EQ(got.choices[0].tokens[i].token, expected.tokens[i].token);
}

}  // namespace
}  // namespace pagoda::engine
