// Generations whose events are made by the caller's executor.
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "service/tests/manual_executor.h"
#include "service/tests/service_fixture.h"

namespace pagoda::service {
namespace {

using engine::FinishReason;

class ExecutorTest : public ServiceTest {
 protected:
  // Up to and including the first token, which goes by the text pool.
  std::shared_ptr<Received> start_stream(GenerationRequest request) {
    auto received = start(std::move(request), executor_);
    engine_->step();
    service_->flush();
    return received;
  }
  void step_and_run() {
    engine_->step();
    executor_->run();
  }
  // To the end of everything, wherever it runs.
  void finish() {
    while (engine_->step()) executor_->run();
    executor_->run();
    service_->flush();
  }

  std::shared_ptr<ManualExecutor> executor_ = std::make_shared<ManualExecutor>();
};

TEST_F(ExecutorTest, ThePromptGoesByThePoolAndTheRestByTheExecutor) {
  build(script("a", {"a", "b", "c"}));
  const auto received = start_stream(request("script:a"));
  EXPECT_EQ(executor_->posts(), 0);
  EXPECT_EQ(received->prompts.size(), 1u);
  EXPECT_EQ(received->text(), "a");
  engine_->step();
  service_->flush();
  EXPECT_EQ(received->text(), "a") << "the pool did what the executor should";
  EXPECT_EQ(executor_->posts(), 1);
  executor_->run();
  EXPECT_EQ(received->text(), "ab");
  finish();
  EXPECT_EQ(received->text(), "abc");
  ASSERT_TRUE(received->end);
  EXPECT_FALSE(received->end->error);
  EXPECT_EQ(received->events_after_end, 0);
  EXPECT_EQ(received->end->usage.completion_tokens, 3);
}

TEST_F(ExecutorTest, StepsThatItWasTooLateForAreOneEvent) {
  build(script("a", {"a", "b", "c", "d"}));
  const auto received = start_stream(request("script:a"));
  for (int i = 0; i < 3; ++i) engine_->step();
  EXPECT_EQ(executor_->posts(), 1);
  executor_->run();
  ASSERT_EQ(received->choices.size(), 2u);
  EXPECT_EQ(received->choices[1].text, "bcd");
  EXPECT_EQ(received->choices[1].token_ids.size(), 3u);
  EXPECT_EQ(executor_->waiting(), 0u);
  finish();
  EXPECT_TRUE(received->end);
}

TEST_F(ExecutorTest, ChoicesShareATurn) {
  build(script("a", {"x"}, true));
  GenerationRequest wanted = request("script:a");
  wanted.n = 3;
  wanted.max_tokens = 4;
  const auto received = start_stream(wanted);
  finish();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(received->text(i), "xxxx");
  EXPECT_LE(executor_->posts(), 4);
  EXPECT_EQ(received->end->usage.completion_tokens, 12);
}

TEST_F(ExecutorTest, StopStringsEndTheChoice) {
  build(script("a", {"x", "EN", "D", "y"}, true));
  GenerationRequest wanted = request("script:a");
  wanted.stop = {"END"};
  const auto received = start_stream(wanted);
  finish();
  EXPECT_EQ(received->text(), "x");
  EXPECT_EQ(received->choices.back().finish, FinishReason::kStop);
  EXPECT_TRUE(engine_->idle());
  EXPECT_EQ(engine_->debug_blocks().used, 0);
}

TEST_F(ExecutorTest, ScoresStayOnThePool) {
  build(script("a", {"a", "b"}));
  GenerationRequest wanted = request("script:a");
  wanted.sampling.num_logprobs = 2;
  const auto received = start_stream(wanted);
  run();
  EXPECT_EQ(executor_->posts(), 0);
  EXPECT_EQ(received->text(), "ab");
  EXPECT_TRUE(received->end);
}

TEST_F(ExecutorTest, CancelAtAnyStage) {
  build(script("a", {"x"}, true));
  for (const int steps : {0, 1, 4}) {
    const auto received = start_stream(request("script:a"));
    for (int i = 0; i < steps; ++i) step_and_run();
    std::thread([&] { received->generation->cancel(); }).join();
    finish();
    ASSERT_TRUE(received->end) << steps;
    EXPECT_EQ(received->end->error->kind, ErrorKind::kCancelled);
    EXPECT_EQ(received->events_after_end, 0);
    EXPECT_TRUE(engine_->idle());
    received->generation->cancel();
  }
}

TEST_F(ExecutorTest, AnExecutorThatHasGoneLeavesTheRestToThePool) {
  build(script("a", {"a", "b", "c", "d"}));
  for (const bool taken : {false, true}) {
    executor_ = std::make_shared<ManualExecutor>();
    const auto received = start_stream(request("script:a"));
    step_and_run();
    // With one turn taken but not run yet, or without.
    if (taken) engine_->step();
    executor_->close();
    if (!taken) engine_->step();
    service_->flush();
    EXPECT_EQ(received->text(), taken ? "ab" : "abc");
    executor_->run();
    run();
    EXPECT_EQ(received->text(), "abcd");
    ASSERT_TRUE(received->end);
    EXPECT_FALSE(received->end->error);
    EXPECT_EQ(received->events_after_end, 0);
  }
}

TEST_F(ExecutorTest, DeadlineAndShutdown) {
  build(script("a", {"x"}, true));
  GenerationRequest wanted = request("script:a");
  wanted.timeout = std::chrono::milliseconds(500);
  auto received = start_stream(wanted);
  clock_.advance(std::chrono::seconds(1));
  finish();
  ASSERT_TRUE(received->end);
  EXPECT_EQ(received->end->error->kind, ErrorKind::kDeadlineExceeded);
  EXPECT_EQ(received->text(), "x");

  received = start_stream(request("script:a"));
  engine_->stop();
  service_->flush();
  EXPECT_FALSE(received->end);
  executor_->run();
  ASSERT_TRUE(received->end);
  EXPECT_EQ(received->end->error->kind, ErrorKind::kShuttingDown);
}

TEST_F(ExecutorTest, DetokenizerFailuresEndTheRequestOnly) {
  for (const TokenId bad : {scripted::kFault, scripted::kThrow}) {
    scripted::ScriptTable table;
    scripted::Script faulty;
    faulty.steps = {{table.intern("a")}, {bad}};
    table.add("bad", std::move(faulty));
    build(std::move(table));
    const auto received = start_stream(request("script:bad"));
    finish();
    ASSERT_TRUE(received->end);
    EXPECT_EQ(received->end->error->kind, ErrorKind::kInternal);
    EXPECT_EQ(received->text(), "a");
    EXPECT_TRUE(engine_->idle());
  }
}

// With real threads: one executor for all streams, as an I/O thread has it, and clients that leave.
TEST_F(ExecutorTest, ManyStreamsAndThreads) {
  build(script("a", {"a", "b", "c", "d", "e", "f"}), 2, 256);
  std::atomic<bool> done{false};
  std::thread io_thread([&] {
    while (!done.load()) executor_->run();
    executor_->run();
  });
  engine_->start();
  std::vector<std::shared_ptr<Received>> all;
  for (int i = 0; i < 100; ++i) {
    all.push_back(start(request("script:a"), executor_));
    if (i % 5 == 0) all.back()->generation->cancel();
    if (i == 70) executor_->close();
  }
  while (!engine_->idle()) std::this_thread::yield();
  done = true;
  io_thread.join();
  service_->flush();
  for (size_t i = 0; i < all.size(); ++i) {
    ASSERT_TRUE(all[i]->end);
    EXPECT_EQ(all[i]->events_after_end, 0);
    if (i % 5 == 0) continue;
    EXPECT_FALSE(all[i]->end->error);
    EXPECT_EQ(all[i]->text(), "abcdef");
  }
}

}  // namespace
}  // namespace pagoda::service
