// The engine on its own thread, with callers on others. Built with ThreadSanitizer this proves the locking.

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>

#include "engine/tests/engine_fixture.h"

namespace pagoda::engine {
namespace {

// Counts finished choices; the waiter sleeps until there are enough.
class Tally {
 public:
  void add(int count) {
    const std::lock_guard lock(mutex_);
    finished_ += count;
    changed_.notify_all();
  }
  void wait_for(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return finished_ >= count; });
  }
  int finished() const {
    const std::lock_guard lock(mutex_);
    return finished_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int finished_ = 0;
};

EngineRequest make_request(uint64_t id, Tally& tally) {
  EngineRequest r;
  r.id = {id};
  r.prompt = random_prompt(5 + static_cast<int>(id % 60), static_cast<uint32_t>(id % 10));
  r.max_tokens = 1 + static_cast<int64_t>(id % 40);
  r.n = id % 5 == 0 ? 2 : 1;
  r.sink = [&tally](std::span<const EngineEvent> events) {
    int count = 0;
    for (const EngineEvent& event : events) count += event.finish != FinishReason::kNone ? 1 : 0;
    if (count > 0) tally.add(count);
  };
  return r;
}

struct Callers {
  std::atomic<int> submitted_choices{0};
  std::vector<std::thread> threads;

  void start(Engine& engine, Tally& tally, uint64_t first_id) {
    for (uint64_t thread = 0; thread < 4; ++thread) {
      threads.emplace_back(
          [this, &engine, &tally, first = first_id + thread * 10000] { call(engine, tally, first); });
    }
  }
  void call(Engine& engine, Tally& tally, uint64_t first) {
    for (uint64_t i = 0; i < 200; ++i) {
      EngineRequest r = make_request(first + i, tally);
      const int n = r.n;
      if (engine.submit(std::move(r))) submitted_choices += n;
      if (i % 3 == 0) engine.abort({first + i});
      if (i % 7 == 0) engine.abort({first + i / 2}, static_cast<int>(i % 2));
      EXPECT_LE(engine.stats().blocks_used, engine.debug_blocks().total);
    }
  }
  void join() {
    for (std::thread& thread : threads) thread.join();
    threads.clear();
  }
};

class EngineThreadTest : public ::testing::Test {
 protected:
  FakeModel model_{kTestVocab};
  SteadyClock clock_;
  ComputePool pool_{2};
  EngineOptions options_ = test_options(24);
};

TEST_F(EngineThreadTest, CallersOnFourThreads) {
  Engine engine(model_, KvStorage(model_.kv_shape(), options_.num_blocks), options_, pool_, clock_);
  Tally tally;
  Callers callers;
  engine.start();
  callers.start(engine, tally, 1);
  callers.join();
  tally.wait_for(callers.submitted_choices);
  engine.stop();
  EXPECT_EQ(tally.finished(), callers.submitted_choices);
  EXPECT_TRUE(engine.idle());
  EXPECT_EQ(engine.stats().blocks_used, 0);
  engine.check_integrity();
}

TEST_F(EngineThreadTest, StopWhileCallersSubmit) {
  for (uint64_t round = 0; round < 5; ++round) {
    Engine engine(model_, KvStorage(model_.kv_shape(), options_.num_blocks), options_, pool_, clock_);
    Tally tally;
    Callers callers;
    engine.start();
    callers.start(engine, tally, 1);
    tally.wait_for(20 * static_cast<int>(round));
    std::thread second_stop([&] { engine.stop(); });
    engine.stop();
    second_stop.join();
    callers.join();
    EXPECT_EQ(tally.finished(), callers.submitted_choices) << "every accepted choice gets its last event";
    EXPECT_TRUE(engine.idle());
    Tally unused;
    EXPECT_EQ(engine.submit(make_request(999999, unused)).error().kind, ErrorKind::kShuttingDown);
  }
}

TEST_F(EngineThreadTest, AnIdleEngineWakesUpForWork) {
  Engine engine(model_, KvStorage(model_.kv_shape(), options_.num_blocks), options_, pool_, clock_);
  engine.start();
  Tally tally;
  int expected = 0;
  for (uint64_t id = 1; id <= 50; ++id) {
    EngineRequest r = make_request(id, tally);
    expected += r.n;
    ASSERT_TRUE(engine.submit(std::move(r)).has_value());
    tally.wait_for(expected);
  }
}  // the destructor stops it

}  // namespace
}  // namespace pagoda::engine
