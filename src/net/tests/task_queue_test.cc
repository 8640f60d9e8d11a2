#include "net/task_queue.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>

#include "base/tests/function_task.h"
#include "net/exchange.h"

namespace pagoda::net {
namespace {

struct CountingSignal final : OutputSignal {
  void output_ready() override { ++ready; }
  void take_now() override { ++taken; }
  int ready = 0, taken = 0;
};

class TaskQueueTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = TaskQueue::open();
    ASSERT_TRUE(opened);
    queue_ = *opened;
    ExchangeInfo info;
    info.http11 = true;
    exchange_ = std::make_shared<Exchange>(std::move(info), context_, signal_, queue_);
  }
  void TearDown() override { exchange_->client_gone(); }

  // How often the reader was told since the last call.
  uint64_t wake_ups() const {
    eventfd_t count = 0;
    return ::eventfd_read(queue_->event_fd(), &count) == 0 ? count : 0;
  }

  std::shared_ptr<ServerContext> context_ = std::make_shared<ServerContext>(
      HttpServerOptions{}, [](int, std::string_view, std::string_view) { return std::string(); }, nullptr);
  std::shared_ptr<CountingSignal> signal_ = std::make_shared<CountingSignal>();
  std::shared_ptr<TaskQueue> queue_;
  std::shared_ptr<Exchange> exchange_;
};

TEST_F(TaskQueueTest, ManyPostsAreOneWakeUp) {
  EXPECT_EQ(wake_ups(), 0U);
  std::string order;
  for (const char c : {'a', 'b', 'c'}) EXPECT_TRUE(exchange_->post(task([&order, c] { order += c; })));
  EXPECT_EQ(wake_ups(), 1U);
  EXPECT_EQ(order, "") << "post() ran a task";
  queue_->run_pending();
  EXPECT_EQ(order, "abc");
  EXPECT_TRUE(exchange_->post(task([&order] { order += 'd'; })));
  EXPECT_EQ(wake_ups(), 1U);
  queue_->run_pending();
  EXPECT_EQ(order, "abcd");
  queue_->run_pending();
  EXPECT_EQ(order, "abcd");
}

TEST_F(TaskQueueTest, WhatATaskPostsIsForTheNextRun) {
  int runs = 0;
  EXPECT_TRUE(exchange_->post(task([&] {
    ++runs;
    EXPECT_TRUE(exchange_->post(task([&] { ++runs; })));
  })));
  EXPECT_EQ(wake_ups(), 1U);
  queue_->run_pending();
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(wake_ups(), 1U);
  queue_->run_pending();
  EXPECT_EQ(runs, 2);
}

TEST_F(TaskQueueTest, WhatATaskWritesIsTakenOnce) {
  EXPECT_TRUE(exchange_->post(task([&] {
    exchange_->begin_stream(200, {});
    exchange_->write("a");
    exchange_->write("b");
  })));
  queue_->run_pending();
  EXPECT_EQ(signal_->ready, 0);
  EXPECT_EQ(signal_->taken, 1);
  EXPECT_TRUE(exchange_->take_output().bytes.ends_with("1\r\na\r\n1\r\nb\r\n"));
  exchange_->write("c");
  EXPECT_EQ(signal_->ready, 1) << "writes outside of tasks signal again";
}

TEST_F(TaskQueueTest, FailuresStayWithTheirTask) {
  int runs = 0;
  exchange_->post(task([&] {
    exchange_->begin_stream(200, {});
    throw std::runtime_error("meant to fail");
  }));
  exchange_->post(task([] { throw 1; }));
  exchange_->post(task([&] { ++runs; }));
  queue_->run_pending();
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(signal_->taken, 3) << "also what a failed task wrote is sent";
}

TEST_F(TaskQueueTest, AClientThatHasGoneGetsNoTasks) {
  int runs = 0;
  EXPECT_TRUE(exchange_->post(task([&] { ++runs; })));
  exchange_->client_gone();
  EXPECT_FALSE(exchange_->post(task([&] { ++runs; })));
  queue_->run_pending();
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(signal_->taken, 0);
}

TEST_F(TaskQueueTest, CloseRunsWhatIsLeft) {
  int runs = 0;
  EXPECT_TRUE(exchange_->post(task([&] {
    ++runs;
    EXPECT_FALSE(exchange_->post(task([&] { ++runs; })));
  })));
  queue_->close();
  EXPECT_EQ(runs, 1);
  EXPECT_FALSE(exchange_->post(task([&] { ++runs; })));
  queue_->close();
  EXPECT_EQ(runs, 1);
}

TEST_F(TaskQueueTest, AcceptedTasksRunOnce) {
  std::atomic<int> accepted{0}, runs{0};
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      const auto work = task([&] { ++runs; });
      while (exchange_->post(work)) ++accepted;
    });
  }
  std::thread reader([&] {
    while (!done.load()) {
      if (wake_ups() > 0) queue_->run_pending();
    }
  });
  while (accepted.load() < 1000) std::this_thread::yield();
  done = true;
  reader.join();
  queue_->close();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(runs.load(), accepted.load());
}

TEST(ExchangeWithoutTasks, TakesNone) {
  const auto context = std::make_shared<ServerContext>(
      HttpServerOptions{}, [](int, std::string_view, std::string_view) { return std::string(); }, nullptr);
  const auto exchange =
      std::make_shared<Exchange>(ExchangeInfo{}, context, std::make_shared<CountingSignal>());
  EXPECT_FALSE(exchange->post(task([] {})));
  exchange->release();
}

}  // namespace
}  // namespace pagoda::net
