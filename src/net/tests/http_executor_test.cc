// Streams whose events are made by the I/O threads.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>

#include "base/tests/function_task.h"
#include "raw_client.h"
#include "test_server.h"

namespace pagoda::net::testing {
namespace {

// A stream that is written by tasks, one line for each.
class TaskStream : public Task, public std::enable_shared_from_this<TaskStream> {
 public:
  TaskStream(std::shared_ptr<ResponseWriter> writer, int lines)
      : writer_(std::move(writer)), executor_(writer_->executor()), lines_(lines) {}

  bool post() { return executor_->post(shared_from_this()); }

  void run() override {
    if (line_ == 0) writer_->begin_stream(200, {});
    writer_->write(fmt::format("{}\n", line_++));
    if (line_ == lines_) writer_->end_stream();
    ran_on_ = std::this_thread::get_id();
  }

  std::thread::id ran_on() const { return ran_on_.load(); }

 private:
  const std::shared_ptr<ResponseWriter> writer_;
  const std::shared_ptr<Executor> executor_;
  const int lines_;
  int line_ = 0;
  std::atomic<std::thread::id> ran_on_{};
};

std::string numbered_lines(int count) {
  std::string lines;
  for (int i = 0; i < count; ++i) lines += fmt::format("{}\n", i);
  return lines;
}

class HttpExecutor : public ::testing::TestWithParam<int> {
 protected:
  static HttpServerOptions options() {
    HttpServerOptions result;
    result.io_threads = GetParam();
    result.max_pending_bytes = 100000;
    return result;
  }
  TestServer server_{options()};
};

TEST_P(HttpExecutor, StreamsKeepTheirOrder) {
  constexpr int kStreams = 8, kLines = 200;
  std::vector<std::unique_ptr<RawClient>> clients;
  std::vector<std::shared_ptr<TaskStream>> streams;
  for (int i = 0; i < kStreams; ++i) {
    clients.push_back(std::make_unique<RawClient>(server_.port()));
    ASSERT_TRUE(clients.back()->send(make_request("GET", "/hold")));
    streams.push_back(std::make_shared<TaskStream>(server_.wait_held(static_cast<size_t>(i)), kLines));
  }
  for (int line = 0; line < kLines; ++line) {
    for (const auto& stream : streams) ASSERT_TRUE(stream->post());
  }
  for (const auto& client : clients) EXPECT_EQ(client->read_response().body, numbered_lines(kLines));
  for (const auto& stream : streams) EXPECT_NE(stream->ran_on(), std::this_thread::get_id());
}

TEST_P(HttpExecutor, TheConnectionServesTheNextRequest) {
  RawClient client(server_.port());
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(client.send(make_request("GET", "/hold") + make_request("GET", "/health")));
    const auto stream = std::make_shared<TaskStream>(server_.wait_held(i), 1);
    ASSERT_TRUE(stream->post());
    EXPECT_EQ(client.read_response().body, "0\n");
    EXPECT_EQ(client.read_response().body, "ok");
  }
}

TEST_P(HttpExecutor, AClientThatReadsNothingIsCut) {
  RawClient client(server_.port());
  client.shrink_receive_buffer();
  ASSERT_TRUE(client.send(make_request("GET", "/hold")));
  const auto writer = server_.wait_held();
  ASSERT_TRUE(writer->executor()->post(task([&] { writer->begin_stream(200, {}); })));
  const auto large = task([&] { writer->write(std::string(50000, 'x')); });
  EXPECT_TRUE(eventually([&] { return !writer->executor()->post(large); }));
  EXPECT_TRUE(writer->closed());
  EXPECT_TRUE(eventually([&] { return server_.gone() == 1 && server_.http().active_requests() == 0; }));
}

TEST_P(HttpExecutor, ASlowReaderGetsEverything) {
  RawClient client(server_.port());
  ASSERT_TRUE(client.send(make_request("GET", "/hold")));
  const auto writer = server_.wait_held();
  // One answer far beyond what the kernel takes at once.
  const std::string body(size_t{16} << 20, 'x');
  ASSERT_TRUE(writer->executor()->post(task([&] { writer->respond(200, {}, body); })));
  EXPECT_EQ(client.read_response().body, body);
}

TEST_P(HttpExecutor, FailuresCostOneAnswer) {
  RawClient client(server_.port());
  ASSERT_TRUE(client.send(make_request("GET", "/hold")));
  {
    auto writer = server_.wait_held();
    server_.forget_held();
    const auto executor = writer->executor();
    // The task owns the last writer.
    ASSERT_TRUE(executor->post(task([writer = std::move(writer)] { throw std::runtime_error("meant"); })));
  }
  EXPECT_EQ(client.read_response().status, 500);
  ASSERT_TRUE(client.send(make_request("GET", "/health")));
  EXPECT_EQ(client.read_response().body, "ok");
}

TEST_P(HttpExecutor, StopRunsWhatWasTakenAndRefusesTheRest) {
  std::vector<std::unique_ptr<RawClient>> clients;
  for (size_t i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<RawClient>(server_.port()));
    ASSERT_TRUE(clients.back()->send(make_request("GET", "/hold")));
    server_.wait_held(i);
  }
  std::atomic<int> accepted{0}, runs{0};
  std::vector<std::thread> posters;
  for (const auto& writer : server_.held()) {
    posters.emplace_back([&, writer] {
      const auto executor = writer->executor();
      const auto work = task([&, writer] {
        if (runs++ % 100 == 0) std::this_thread::yield();
      });
      while (executor->post(work)) ++accepted;
    });
  }
  EXPECT_TRUE(eventually([&] { return accepted.load() > 1000; }));
  server_.http().stop();
  for (std::thread& poster : posters) poster.join();
  EXPECT_EQ(runs.load(), accepted.load());
}

INSTANTIATE_TEST_SUITE_P(Threads, HttpExecutor, ::testing::Values(1, 3));

}  // namespace
}  // namespace pagoda::net::testing
