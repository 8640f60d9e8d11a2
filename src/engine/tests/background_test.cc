// Requests in the background: nobody else may notice them, and they come out as if they had run alone.

#include <gtest/gtest.h>

#include "engine/tests/engine_fixture.h"

namespace pagoda::engine {
namespace {

// What each step of a run was made of, and after which of them the request had how many tokens.
struct Trace {
  std::vector<int64_t> step_tokens;
  std::vector<size_t> output_tokens;

  friend bool operator==(const Trace&, const Trace&) = default;
};

// Foreground requests that arrive over time, until all of them are done; `harness` may be busy in the
// background.
Trace run_foreground(EngineHarness& harness, std::vector<EngineRequest> requests) {
  Trace trace;
  harness.model().on_forward = [&](const model::ForwardInput& input) {
    trace.step_tokens.push_back(std::ssize(input.tokens));
  };
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].id = {1000 + i};
    harness.submit(requests[i]);
    harness.steps(3);
    trace.output_tokens.push_back(harness.received(requests[i].id).choices[0].tokens.size());
  }
  const auto all_done = [&] {
    return std::ranges::all_of(requests, [&](const auto& r) { return harness.received(r.id).done(); });
  };
  while (!all_done()) {
    harness.step();
    for (const auto& r : requests) {
      trace.output_tokens.push_back(harness.received(r.id).choices[0].tokens.size());
    }
  }
  harness.model().on_forward = nullptr;
  return trace;
}

std::vector<EngineRequest> foreground_requests(EngineHarness& harness) {
  std::vector<EngineRequest> requests;
  for (uint32_t i = 0; i < 6; ++i) {
    EngineRequest r = harness.request(random_prompt(20 + 30 * static_cast<int>(i), 100 + i), 20);
    r.sampling.temperature = 1.0f;
    r.sampling.seed = i;
    r.n = i == 2 ? 3 : 1;
    requests.push_back(r);
  }
  return requests;
}

EngineRequest background_request(EngineHarness& harness, uint32_t seed, int64_t max_tokens) {
  EngineRequest r = harness.request(random_prompt(40, seed), max_tokens);
  r.background = true;
  return r;
}

TEST(BackgroundTest, NobodyNoticesIt) {
  for (const int num_blocks : {60, 400}) {  // with and without enough blocks for all
    for (const bool speculates : {false, true}) {
      SCOPED_TRACE(::testing::Message() << num_blocks << " blocks, speculation " << speculates);
      EngineOptions options = test_options(num_blocks);
      options.speculation.num_tokens = speculates ? 8 : 0;
      options.speculation.min_match = 1;
      EngineHarness alone(options, {}, 1, FakeText::kRepeating), busy(options, {}, 1, FakeText::kRepeating);
      const Trace expected = run_foreground(alone, foreground_requests(alone));
      std::vector<EngineRequest> background;
      for (uint32_t i = 0; i < 20; ++i) {
        background.push_back(background_request(busy, i, 90));
        busy.submit(background.back());
      }
      busy.steps(30);
      EXPECT_EQ(busy.engine().stats().running, options.max_num_seqs) << "all slots should be taken";
      EXPECT_TRUE(run_foreground(busy, foreground_requests(busy)) == expected);
      busy.run();
      for (const auto& r : background)
        expect_reference(r, busy.received(r.id), options, FakeText::kRepeating);
    }
  }
}

TEST(BackgroundTest, RunsWhenNothingElseDoes) {
  const EngineOptions options = test_options(100);
  EngineHarness harness(options);
  const EngineRequest background = background_request(harness, 1, 20);
  const Received& got = harness.submit(background);
  harness.steps(5);
  EXPECT_EQ(got.choices[0].tokens.size(), 5u);
  const EngineRequest foreground = harness.request(random_prompt(30, 2), 10);
  const Received& foreground_got = harness.submit(foreground);
  harness.steps(10);
  EXPECT_TRUE(foreground_got.done());
  EXPECT_EQ(got.choices[0].tokens.size(), 5u) << "it should have paused";
  int64_t tokens_run = 0;
  harness.model().on_forward = [&](const auto& input) { tokens_run += std::ssize(input.tokens); };
  harness.run();
  EXPECT_EQ(tokens_run, 15) << "it should have kept its blocks";
  EXPECT_EQ(harness.engine().stats().preemptions, 0u);
  expect_reference(background, got, options);
  expect_reference(foreground, foreground_got, options);
}

TEST(BackgroundTest, GivesUpSlotsAndBlocksAtOnce) {
  EngineOptions options = test_options(20);
  options.max_num_seqs = 2;
  EngineHarness harness(options);
  const EngineRequest first = background_request(harness, 1, 60), second = background_request(harness, 2, 60);
  harness.submit(first);
  harness.submit(second);
  harness.steps(10);
  EngineRequest foreground = harness.request(random_prompt(40, 3), 250);
  foreground.n = 2;
  foreground.sampling.temperature = 1.0f;
  const Received& got = harness.submit(foreground);
  harness.step();
  EXPECT_EQ(got.choices[0].tokens.size(), 1u);
  EXPECT_EQ(got.choices[1].tokens.size(), 1u);
  EXPECT_EQ(harness.engine().stats().preemptions, 2u) << "both slots are needed";
  harness.run();
  for (const EngineRequest* r : std::vector<const EngineRequest*>{&first, &second, &foreground})
    expect_reference(*r, harness.received(r->id), options);
}

TEST(BackgroundTest, ItsOwnOrderIsThatOfArrival) {
  EngineOptions options = test_options(100);
  options.max_num_seqs = 1;
  options.policy = EngineOptions::Policy::kPriority;
  EngineHarness harness(options);
  std::vector<int> order;
  for (int i = 0; i < 4; ++i) {
    EngineRequest r = harness.request(random_prompt(10, 6), 3);
    r.background = i < 2;
    r.priority = i < 2 ? -5 : 5;  // the background comes last whatever its priority
    r.sink = [&order, i](std::span<const EngineEvent> events) {
      if (events.back().finish != FinishReason::kNone) order.push_back(i);
    };
    harness.submit(r);
  }
  harness.run();
  EXPECT_EQ(order, (std::vector<int>{2, 3, 0, 1}));
}

TEST(BackgroundTest, LatenciesAreThoseOfTheOthers) {
  int gaps = 0;
  std::vector<bool> ended;
  EngineObserver observer;
  observer.on_inter_token = [&](double) { ++gaps; };
  observer.on_request_end = [&](const RequestTimes& times) { ended.push_back(times.background); };
  EngineHarness harness(test_options(100), observer);
  harness.submit(background_request(harness, 1, 10));
  harness.submit(harness.request(random_prompt(10, 2), 4));
  harness.run();
  EXPECT_EQ(gaps, 3);
  EXPECT_EQ(ended, (std::vector<bool>{false, true}));
}

}  // namespace
}  // namespace pagoda::engine
