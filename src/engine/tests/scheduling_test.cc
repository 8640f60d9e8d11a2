// Who runs when, with how many tokens, and what happens when blocks run out.

#include <gtest/gtest.h>

#include "engine/tests/engine_fixture.h"

namespace pagoda::engine {
namespace {

// CASES B117.
TEST(SchedulingTest, B117ARequestThatCanNeverFitIsRefusedAndOthersRun) {
  EngineOptions options = test_options(8);
  EngineHarness harness(options);
  const auto refused = harness.try_submit(harness.request(random_prompt(200, 1), 16));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalidArgument);
  for (const char* part : {"200", "14", "8", "--kv-cache-memory-bytes"}) {
    EXPECT_NE(refused.error().message.find(part), std::string::npos) << refused.error().message;
  }
  const EngineRequest small = harness.request(random_prompt(20, 2), 10);
  const Received& got = harness.submit(small);
  harness.run();
  expect_reference(small, got, options);
}

TEST(SchedulingTest, ARequestThatFillsThePoolExactlyRuns) {
  const EngineOptions options = test_options(8);
  EngineHarness harness(options);
  EngineRequest exact = harness.request(random_prompt(100, 3), 29);  // 128 slots: the last token needs none
  exact.n = 3;
  exact.sampling.temperature = 1.0f;
  const Received& got = harness.submit(exact);
  EXPECT_FALSE(harness.try_submit(harness.request(random_prompt(100, 3), 30)).has_value());
  harness.run();
  expect_reference(exact, got, options);
  EXPECT_GT(harness.engine().stats().preemptions, 0u) << "three choices can't fit at once";
}

// CASES B118: a pool of 1.2 times the largest request, 16 requests of 60 % each.
TEST(SchedulingTest, B118FullCacheNeverStopsProgress) {
  EngineOptions options = test_options(24);
  options.max_num_seqs = 16;
  EngineHarness harness(options);
  std::vector<EngineRequest> requests;
  for (uint32_t i = 0; i < 16; ++i) {
    requests.push_back(harness.request(random_prompt(30, i), 160));
    harness.submit(requests.back());
  }
  uint64_t tokens = 0;
  int steps_without_token = 0;
  while (harness.step()) {
    const uint64_t now = harness.engine().stats().generation_tokens;
    steps_without_token = now > tokens ? 0 : steps_without_token + 1;
    tokens = now;
    ASSERT_LT(steps_without_token, 10);
  }
  EXPECT_GT(harness.engine().stats().preemptions, 5u);
  for (const EngineRequest& r : requests) expect_reference(r, harness.received(r.id), options);
}

// CASES B119: seeds, penalties, logprobs and usage are the same after preemptions.
TEST(SchedulingTest, B119PreemptionChangesNothing) {
  const EngineOptions large = test_options(500), tiny = test_options(16);
  EngineHarness roomy(large), tight(tiny);
  std::vector<EngineRequest> requests;
  for (uint32_t i = 0; i < 8; ++i) {
    EngineRequest r = roomy.request(random_prompt(25, i), 80);
    r.sampling.temperature = i % 2 == 0 ? 0.9f : 0.0f;
    r.sampling.seed = 40 + i;
    r.sampling.repetition_penalty = 1.2f;
    r.sampling.frequency_penalty = 0.5f;
    r.sampling.presence_penalty = 0.5f;
    r.sampling.num_logprobs = 2;
    r.n = i == 3 ? 2 : 1;
    requests.push_back(r);
    roomy.submit(r);
    tight.submit(r);
  }
  roomy.run();
  tight.run();
  EXPECT_EQ(roomy.engine().stats().preemptions, 0u);
  EXPECT_GT(tight.engine().stats().preemptions, 3u);
  EXPECT_EQ(roomy.engine().stats().prompt_tokens, tight.engine().stats().prompt_tokens);
  EXPECT_EQ(roomy.engine().stats().generation_tokens, tight.engine().stats().generation_tokens);
  for (const EngineRequest& r : requests) {
    expect_reference(r, roomy.received(r.id), large);
    expect_reference(r, tight.received(r.id), tiny);
  }
}

// CASES B120.
TEST(SchedulingTest, B120ALongPromptDelaysNobodyByMoreThanAStep) {
  const EngineOptions options = test_options(500);  // 64 tokens a step
  EngineHarness harness(options);
  const EngineRequest victim = harness.request(random_prompt(10, 1), 60);
  const Received& victim_got = harness.submit(victim);
  harness.step();
  const EngineRequest long1 = harness.request(random_prompt(900, 2), 5),
                      long2 = harness.request(random_prompt(900, 3), 5);
  const Received &got1 = harness.submit(long1), &got2 = harness.submit(long2);
  harness.steps(2);
  const EngineRequest newcomer = harness.request(random_prompt(12, 4), 5);
  const Received& newcomer_got = harness.submit(newcomer);
  int64_t most_tokens = 0;
  harness.model().on_forward = [&](const model::ForwardInput& input) {
    most_tokens = std::max<int64_t>(most_tokens, std::ssize(input.tokens));
  };
  for (size_t i = 4; i < 20; ++i) {
    harness.step();
    EXPECT_EQ(victim_got.choices[0].tokens.size(), i) << "a step without a token for the victim";
    EXPECT_TRUE(i < 5 || !newcomer_got.choices[0].tokens.empty());
  }
  EXPECT_TRUE(got1.choices[0].tokens.empty()) << "the long prompts should still run";
  EXPECT_TRUE(got2.choices[0].tokens.empty());
  EXPECT_EQ(most_tokens, 64);
  harness.run();
  for (const auto* r : {&victim, &long1, &long2, &newcomer})
    expect_reference(*r, harness.received(r->id), options);
}

TEST(SchedulingTest, StepsAreFilledToTheBudgetAndTheThreshold) {
  EngineOptions options = test_options(100);
  for (const int64_t threshold : {0, 24}) {
    options.long_prefill_token_threshold = threshold;
    EngineHarness harness(options);
    std::vector<int64_t> chunks;
    harness.model().on_forward = [&](const model::ForwardInput& input) {
      chunks.push_back(std::ssize(input.tokens));
    };
    const EngineRequest r = harness.request(random_prompt(100, 5), 2);
    const Received& got = harness.submit(r);
    harness.run();
    EXPECT_EQ(chunks, threshold == 0 ? (std::vector<int64_t>{64, 36, 1})
                                     : (std::vector<int64_t>{24, 24, 24, 24, 4, 1}));
    expect_reference(r, got, options);
  }
}

TEST(SchedulingTest, FirstComeFirstServed) {
  EngineOptions options = test_options(100);
  options.max_num_seqs = 1;
  EngineHarness harness(options);
  std::vector<int> order;
  for (int i = 0; i < 4; ++i) {
    EngineRequest r = harness.request(random_prompt(10, 6), 2);
    r.priority = -i;  // has no meaning under kFcfs
    r.sink = [&order, i](std::span<const EngineEvent> events) {
      if (events.back().finish != FinishReason::kNone) order.push_back(i);
    };
    harness.submit(r);
  }
  harness.run();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3}));
}

TEST(SchedulingTest, PriorityRunsLowerValuesFirstAndTakesTheirSlots) {
  EngineOptions options = test_options(100);
  options.max_num_seqs = 1;
  options.policy = EngineOptions::Policy::kPriority;
  EngineHarness harness(options);
  std::vector<int> order;
  std::vector<EngineRequest> requests;
  const auto submit = [&](int priority) {
    EngineRequest r = harness.request(random_prompt(10, 7), 6);
    r.priority = priority;
    requests.push_back(r);
    harness.submit(r);
  };
  submit(5);
  harness.steps(2);  // runs, nobody else is there
  for (const int priority : {7, 1, 5, -3}) submit(priority);
  while (harness.step()) {
    for (const EngineRequest& r : requests) {
      const int id = static_cast<int>(r.id.value);
      if (harness.received(r.id).done() && std::ranges::find(order, id) == order.end()) order.push_back(id);
    }
  }
  EXPECT_EQ(order, (std::vector<int>{5, 3, 1, 4, 2}));
  EXPECT_EQ(harness.engine().stats().preemptions, 1u);
  for (const EngineRequest& r : requests) expect_reference(r, harness.received(r.id), options);
}

TEST(SchedulingTest, ChoicesBeyondTheSlotsWait) {
  EngineOptions options = test_options(100);
  options.max_num_seqs = 3;
  EngineHarness harness(options);
  const EngineRequest busy = harness.request(random_prompt(10, 8), 30);
  harness.submit(busy);
  harness.step();
  EngineRequest r = harness.request(random_prompt(40, 9), 10);
  r.n = 3;
  r.sampling.temperature = 1.0f;
  const Received& got = harness.submit(r);
  harness.steps(2);
  for (const auto& choice : got.choices)
    EXPECT_FALSE(choice.tokens.empty()) << "all draw from the prompt's logits";
  EXPECT_EQ(harness.engine().stats().running, 3);
  EXPECT_EQ(harness.engine().stats().waiting, 1);
  harness.run();
  expect_reference(r, got, options);
  expect_reference(busy, harness.received(busy.id), options);
}

TEST(SchedulingTest, ForksShareThePromptAndComputeItOnce) {
  const EngineOptions options = test_options(100);
  EngineHarness harness(options);
  int64_t tokens_run = 0;
  harness.model().on_forward = [&](const model::ForwardInput& input) {
    tokens_run += std::ssize(input.tokens);
  };
  EngineRequest r = harness.request(random_prompt(50, 10), 8);
  r.n = 5;
  r.sampling.temperature = 1.0f;
  const Received& got = harness.submit(r);
  harness.run();
  EXPECT_EQ(tokens_run, 50 + 5 * 7);
  expect_reference(r, got, options);
}

// CASES B123.
TEST(SchedulingTest, B123SeedsBelongToRequestsAndChoices) {
  const EngineOptions options = test_options(200);
  EngineHarness harness(options);
  EngineRequest r = harness.request(random_prompt(20, 11), 20);
  r.sampling.temperature = 1.0f;
  r.sampling.seed = 7;
  r.n = 3;
  EngineRequest again = r, other_seed = r;
  again.id = {100};
  other_seed.id = {101};
  other_seed.sampling.seed = 8;
  const Received& alone = harness.submit(r);
  harness.run();
  const Received &together = harness.submit(again), &other = harness.submit(other_seed);
  harness.run();
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(alone.choices[i].ids(), together.choices[i].ids());
    EXPECT_NE(alone.choices[i].ids(), other.choices[i].ids());
    EXPECT_NE(alone.choices[i].ids(), alone.choices[(i + 1) % 3].ids());
  }
}

TEST(SchedulingTest, PromptScoresTakeAtMostTheirRowsOfAStep) {
  const EngineOptions options = test_options(100);
  EngineHarness harness(options);
  size_t most_rows = 0;
  harness.model().on_forward = [&](const auto& input) {
    most_rows = std::max(most_rows, input.logit_rows.size());
  };
  std::vector<EngineRequest> requests;
  for (uint32_t i = 0; i < 6; ++i) {
    EngineRequest r = harness.request(random_prompt(90, i), 20);
    r.prompt_logprobs = 1;
    requests.push_back(r);
    harness.submit(r);
  }
  harness.run();
  EXPECT_LE(static_cast<int64_t>(most_rows), max_logit_rows(options));
  for (const EngineRequest& r : requests) {
    expect_reference(r, harness.received(r.id), options);
    EXPECT_TRUE(std::ranges::equal(*harness.received(r.id).prompt_logprobs,
                                   reference_prompt_scores(r, kTestVocab), equal_tokens));
  }
}

}  // namespace
}  // namespace pagoda::engine
