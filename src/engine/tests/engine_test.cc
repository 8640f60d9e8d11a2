// Lives and deaths of requests: events, limits, aborts, deadlines, drain.

#include <gtest/gtest.h>

#include <stdexcept>

#include "engine/tests/engine_fixture.h"

namespace pagoda::engine {
namespace {

using std::chrono::milliseconds;

void expect_error(const Result<void>& result, ErrorKind kind, const std::string& part) {
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().kind, kind) << result.error().message;
  EXPECT_NE(result.error().message.find(part), std::string::npos) << result.error().message;
}

TEST(EngineTest, ALoneRequestMatchesTheReference) {
  const EngineOptions options = test_options(16);
  EngineHarness harness(options);
  EngineRequest r = harness.request(random_prompt(37, 1), 20);
  r.sampling.num_logprobs = 3;
  const Received& got = harness.submit(r);
  EXPECT_EQ(harness.run(), 20);  // the step that runs the prompt gives the first token
  expect_reference(r, got, options);
  EXPECT_EQ(got.cached_tokens, 0);
  EXPECT_EQ(got.choices[0].tokens[0].top.size(), 3u);
}

TEST(EngineTest, StopTokensEndAChoiceOnceMinTokensAreOut) {
  const EngineOptions options = test_options(16);
  EngineHarness harness(options);
  EngineRequest plain = harness.request(random_prompt(10, 2), 12);
  const Received& all = harness.submit(plain);
  harness.run();
  const TokenId fifth = all.choices[0].tokens[4].token;
  EngineRequest stop = harness.request(plain.prompt, 12);
  stop.sampling.stop_token_ids = {fifth};
  const Received& stopped = harness.submit(stop);
  EngineRequest late = harness.request(plain.prompt, 12);
  late.sampling.stop_token_ids = {fifth};
  late.sampling.min_tokens = 9;
  const Received& later = harness.submit(late);
  harness.run();
  EXPECT_EQ(stopped.choices[0].finish, FinishReason::kStop);
  EXPECT_EQ(stopped.choices[0].tokens.back().token, fifth);
  EXPECT_LE(stopped.choices[0].tokens.size(), 5u);
  EXPECT_GE(later.choices[0].tokens.size(), 10u);
  expect_reference(stop, stopped, options);
  expect_reference(late, later, options);
}

TEST(EngineTest, AForcedStopTokenBeforeMinTokensDoesNotStop) {
  const EngineOptions options = test_options(16);
  EngineHarness harness(options);
  EngineRequest r = harness.request(random_prompt(10, 2), 12);
  r.sampling.allowed_token_ids = {{7}};  // the sampler has nothing else to give
  r.sampling.stop_token_ids = {{7}};
  r.sampling.min_tokens = 3;
  const Received& got = harness.submit(r);
  harness.run();
  EXPECT_EQ(got.choices[0].ids(), (std::vector<int32_t>{7, 7, 7, 7}));
  EXPECT_EQ(got.choices[0].finish, FinishReason::kStop);
}

TEST(EngineTest, MaxModelLenEndsAChoice) {
  EngineOptions options = test_options(16);
  options.max_model_len = 40;
  EngineHarness harness(options);
  EngineRequest r = harness.request(random_prompt(39, 3), 1000);
  const Received& got = harness.submit(r);
  harness.run();
  EXPECT_EQ(got.choices[0].tokens.size(), 1u);
  EXPECT_EQ(got.choices[0].finish, FinishReason::kLength);
  expect_error(harness.try_submit(harness.request(random_prompt(40, 3), 1)),
               ErrorKind::kContextLengthExceeded, "40");
  EXPECT_TRUE(harness.try_submit(harness.request(random_prompt(40, 3), 0)).has_value());
  harness.run();
}

TEST(EngineTest, BadRequestsAreNamed) {
  EngineHarness harness(test_options(16));
  expect_error(harness.try_submit(harness.request({}, 1)), ErrorKind::kInvalidArgument, "no tokens");
  expect_error(harness.try_submit(harness.request({{0}, {kTestVocab}}, 1)), ErrorKind::kInvalidArgument,
               "id 40");
  expect_error(harness.try_submit(harness.request({{-1}}, 1)), ErrorKind::kInvalidArgument, "id -1");
  expect_error(harness.try_submit(harness.request({{0}}, -1)), ErrorKind::kInvalidArgument,
               "max_tokens is -1");
  EngineRequest r = harness.request({{0}}, 1);
  r.n = 9;
  expect_error(harness.try_submit(r), ErrorKind::kInvalidArgument, "n is 9");
  EXPECT_FALSE(harness.step());
}

// CASES B029.
TEST(EngineTest, MaxTokensZeroGivesOneEventAndOnlyRunsAPromptToScoreIt) {
  EngineHarness harness(test_options(16));
  EngineRequest plain = harness.request(random_prompt(50, 4), 0);
  plain.n = 2;
  EngineRequest scored = harness.request(plain.prompt, 0);
  scored.prompt_logprobs = 2;
  EngineRequest single = harness.request({{5}}, 0);
  single.prompt_logprobs = 2;
  const Received &a = harness.submit(plain), &b = harness.submit(scored), &c = harness.submit(single);
  int64_t tokens_run = 0;
  harness.model().on_forward = [&](const model::ForwardInput& input) {
    tokens_run += std::ssize(input.tokens);
  };
  harness.run();
  for (const Received* got : {&a, &b, &c}) {
    for (const auto& choice : got->choices) {
      EXPECT_TRUE(choice.tokens.empty());
      EXPECT_EQ(choice.finish, FinishReason::kLength);
    }
  }
  EXPECT_EQ(tokens_run, 50);
  EXPECT_EQ(a.prompt_logprobs, nullptr);
  ASSERT_NE(b.prompt_logprobs, nullptr);
  EXPECT_TRUE(
      std::ranges::equal(*b.prompt_logprobs, reference_prompt_scores(scored, kTestVocab), equal_tokens));
  ASSERT_NE(c.prompt_logprobs, nullptr);
  EXPECT_EQ(c.prompt_logprobs->size(), 1u);
}

// CASES B115.
TEST(EngineTest, B115AnAbortedRequestGivesEverythingBackAtTheNextStep) {
  EngineHarness harness(test_options(64));
  for (const int steps_before : {0, 1, 2, 3, 8}) {  // queued, prefilling (chunks of 64) and decoding
    EngineRequest r = harness.request(random_prompt(200, 5), 500);
    const Received& got = harness.submit(r);
    harness.steps(steps_before);
    harness.engine().abort(r.id);
    harness.step();
    EXPECT_EQ(got.choices[0].finish, FinishReason::kAborted);
    EXPECT_EQ(harness.engine().stats().running, 0);
    EXPECT_EQ(harness.engine().stats().waiting, 0);
    EXPECT_EQ(harness.engine().stats().blocks_used, 0);
    EXPECT_TRUE(harness.engine().idle());
  }
}

// CASES B116.
TEST(EngineTest, B116AbortsOfQueuedRequestsUnknownIdsAndTwice) {
  EngineOptions options = test_options(64);
  options.max_num_seqs = 1;
  EngineHarness harness(options);
  const EngineRequest busy = harness.request(random_prompt(20, 6), 30);
  const Received& busy_got = harness.submit(busy);
  std::vector<EngineRequest> queued;
  for (uint32_t i = 0; i < 50; ++i) {
    queued.push_back(harness.request(random_prompt(20, 100 + i), 3));
    harness.submit(queued.back());
  }
  harness.steps(2);
  for (size_t i = 0; i < queued.size(); i += 2) {
    harness.engine().abort(queued[i].id);
    harness.engine().abort(queued[i].id);
  }
  harness.engine().abort({9999});
  harness.run();
  expect_reference(busy, busy_got, options);
  for (size_t i = 0; i < queued.size(); ++i) {
    const Received& got = harness.received(queued[i].id);
    if (i % 2 == 0) {
      EXPECT_EQ(got.choices[0].finish, FinishReason::kAborted);
    } else {
      expect_reference(queued[i], got, options);
    }
    harness.engine().abort(queued[i].id);  // finished: a no-op
  }
  EXPECT_FALSE(harness.step());
}

TEST(EngineTest, B116AbortsOfSingleChoicesLeaveTheOthersAlone) {
  const EngineOptions options = test_options(64);
  for (const int steps_before : {0, 1, 2, 5}) {  // before the fork (the prompt takes 2 steps) and after
    for (const int aborted : {0, 1, 3}) {
      SCOPED_TRACE(::testing::Message() << "choice " << aborted << " after " << steps_before << " steps");
      EngineHarness harness(options);
      EngineRequest r = harness.request(random_prompt(100, 7), 15);
      r.n = 4;
      r.sampling.temperature = 1.0f;
      const Received& got = harness.submit(r);
      harness.steps(steps_before);
      harness.engine().abort(r.id, aborted);
      harness.engine().abort(r.id, aborted);
      harness.engine().abort(r.id, 17);
      harness.run();
      for (int choice = 0; choice < 4; ++choice) {
        const auto& c = got.choices[static_cast<size_t>(choice)];
        const auto expected = reference_output(r, choice, kTestVocab, options.max_model_len);
        EXPECT_EQ(c.finish, choice == aborted ? FinishReason::kAborted : expected.finish);
        const bool is_prefix =
            std::equal(c.tokens.begin(), c.tokens.end(), expected.tokens.begin(), equal_tokens);
        EXPECT_TRUE(is_prefix);
        EXPECT_EQ(c.tokens.size() == expected.tokens.size(), choice != aborted);
      }
    }
  }
}

TEST(EngineTest, DeadlinesEndRequestsInEveryState) {
  EngineOptions options = test_options(64);
  options.max_num_seqs = 1;
  EngineHarness harness(options);
  EngineRequest expired = harness.request(random_prompt(20, 8), 5), running = expired, queued = expired;
  running.id = {100};
  queued.id = {101};
  expired.deadline = harness.clock().now();
  running.deadline = harness.clock().now() + milliseconds(10);
  queued.deadline = harness.clock().now() + milliseconds(5);
  running.max_tokens = queued.max_tokens = 500;
  int64_t steps_run = 0;
  harness.model().on_forward = [&](const auto&) { ++steps_run; };
  const Received& a = harness.submit(expired);
  harness.step();
  EXPECT_EQ(a.choices[0].finish, FinishReason::kDeadline);
  EXPECT_EQ(steps_run, 0) << "an expired request was scheduled";
  const Received &b = harness.submit(running), &c = harness.submit(queued);
  harness.steps(3);
  harness.clock().advance(milliseconds(5));
  harness.step();
  EXPECT_EQ(c.choices[0].finish, FinishReason::kDeadline);
  EXPECT_EQ(b.choices[0].finish, FinishReason::kNone);
  harness.clock().advance(milliseconds(5));
  harness.step();
  EXPECT_EQ(b.choices[0].finish, FinishReason::kDeadline);
  EXPECT_EQ(b.choices[0].tokens.size(), 4u);
  harness.run();
}

TEST(EngineTest, QueueLimitsRefuseWithNumbers) {
  EngineOptions options = test_options(64);
  options.max_num_queued_reqs = 3;
  options.max_num_queued_tokens = 50;
  options.max_num_seqs = 1;
  EngineHarness harness(options);
  harness.submit(harness.request(random_prompt(60, 9), 4));  // alone: may exceed the tokens
  expect_error(harness.try_submit(harness.request(random_prompt(10, 9), 4)), ErrorKind::kOverloaded,
               "limit of 50");
  harness.step();  // the first one runs now
  for (int i = 0; i < 3; ++i) harness.submit(harness.request(random_prompt(10, 10), 4));
  expect_error(harness.try_submit(harness.request(random_prompt(10, 9), 4)), ErrorKind::kOverloaded,
               "limit is 3");
  EXPECT_EQ(harness.engine().stats().rejected, 2u);
  EXPECT_EQ(harness.engine().stats().waiting, 3);
  harness.run();
  for (int i = 0; i < 3; ++i) harness.submit(harness.request(random_prompt(10, 10), 4));
  harness.run();
}

TEST(EngineTest, DrainRefusesNewRequestsAndFinishesOldOnes) {
  const EngineOptions options = test_options(16);
  EngineHarness harness(options);
  const EngineRequest r = harness.request(random_prompt(20, 11), 6);
  const Received& got = harness.submit(r);
  harness.engine().begin_drain();
  expect_error(harness.try_submit(harness.request({{1}}, 1)), ErrorKind::kShuttingDown, "shutting down");
  harness.run();
  expect_reference(r, got, options);
}

TEST(EngineTest, StopAbortsWhatIsLeft) {
  EngineHarness harness(test_options(16));
  EngineRequest r = harness.request(random_prompt(20, 11), 100);
  r.n = 2;
  const Received& running = harness.submit(r);
  harness.steps(3);
  const Received& fresh = harness.submit(harness.request(random_prompt(20, 12), 100));
  harness.engine().stop();
  for (const Received* got : {&running, &fresh}) {
    for (const auto& choice : got->choices) EXPECT_EQ(choice.finish, FinishReason::kAborted);
  }
  EXPECT_TRUE(harness.engine().idle());
  EXPECT_EQ(harness.engine().stats().blocks_used, 0);
  harness.engine().stop();
}

TEST(EngineTest, AThrowingSinkEndsItsOwnRequestOnly) {
  const EngineOptions options = test_options(32);
  EngineHarness harness(options);
  EngineRequest bad = harness.request(random_prompt(20, 13), 50);
  bad.sink = [](std::span<const EngineEvent>) { throw std::runtime_error("sink"); };
  const EngineRequest good = harness.request(random_prompt(20, 14), 10);
  ASSERT_TRUE(harness.try_submit(bad).has_value());
  const Received& got = harness.submit(good);
  harness.steps(2);
  EXPECT_EQ(harness.engine().stats().running, 1);
  harness.run();
  expect_reference(good, got, options);
}

TEST(EngineTest, AnIdInUseEndsTheNewcomerOnly) {
  const EngineOptions options = test_options(32);
  EngineHarness harness(options);
  const EngineRequest r = harness.request(random_prompt(20, 15), 10);
  const Received& got = harness.submit(r);
  EngineRequest twin = r;
  FinishReason finish = FinishReason::kNone;
  twin.sink = [&](std::span<const EngineEvent> events) { finish = events.back().finish; };
  ASSERT_TRUE(harness.engine().submit(twin).has_value());
  harness.run();
  EXPECT_EQ(finish, FinishReason::kError);
  expect_reference(r, got, options);
}

TEST(EngineTest, ObserverSeesTimesAndTokens) {
  std::vector<RequestTimes> ended;
  std::vector<double> gaps;
  int64_t step_tokens = 0;
  EngineObserver observer{.on_request_end = [&](const RequestTimes& times) { ended.push_back(times); },
                          .on_inter_token = [&](double seconds) { gaps.push_back(seconds); },
                          .on_step = [&](int64_t tokens, double) { step_tokens += tokens; }};
  EngineHarness harness(test_options(32), observer);
  harness.clock().advance(milliseconds(100));
  EngineRequest r = harness.request(random_prompt(20, 16), 4);
  r.n = 2;
  harness.submit(r);
  const TimePoint arrived = harness.clock().now();
  while (!harness.engine().idle()) {
    harness.clock().advance(milliseconds(10));
    harness.step();
  }
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].arrived, arrived);
  EXPECT_EQ(ended[0].scheduled, arrived + milliseconds(10));
  EXPECT_EQ(ended[0].first_token, arrived + milliseconds(10));
  EXPECT_EQ(ended[0].finished, arrived + milliseconds(40));
  EXPECT_EQ(ended[0].prompt_tokens, 20);
  EXPECT_EQ(ended[0].output_tokens, 8);
  EXPECT_EQ(ended[0].finish, FinishReason::kLength);
  EXPECT_EQ(gaps, std::vector<double>(6, 0.01));
  EXPECT_EQ(step_tokens, 20 + 6);
  EXPECT_EQ(harness.engine().stats().prompt_tokens, 20u);
  EXPECT_EQ(harness.engine().stats().generation_tokens, 8u);
  EXPECT_EQ(harness.engine().stats().steps, 4u);
}

TEST(EngineTest, DebugBlocksShowsWhoHoldsWhat) {
  EngineOptions options = test_options(32);
  options.max_num_seqs = 3;
  EngineHarness harness(options);
  EngineRequest forked = harness.request(random_prompt(40, 17), 50);
  forked.n = 3;
  harness.submit(forked);
  harness.step();
  harness.submit(harness.request(random_prompt(20, 18), 5));  // the three choices take all slots
  harness.step();
  const BlocksSnapshot blocks = harness.engine().debug_blocks();
  EXPECT_EQ(blocks.total, 32);
  EXPECT_EQ(blocks.block_size, 16);
  ASSERT_EQ(blocks.requests.size(), 2u);
  EXPECT_EQ(blocks.requests[0].state, "running");
  EXPECT_EQ(blocks.requests[0].choices, 3);
  EXPECT_EQ(blocks.requests[0].prompt_tokens, 40);
  EXPECT_EQ(blocks.requests[0].output_tokens, 6);
  EXPECT_EQ(blocks.requests[0].blocks, 2 + 3) << "two shared blocks and a third one for each choice";
  EXPECT_EQ(blocks.used, 5);
  EXPECT_EQ(blocks.requests[1].state, "waiting");
  EXPECT_EQ(blocks.requests[1].blocks, 0);
  harness.run();
}

}  // namespace
}  // namespace pagoda::engine
