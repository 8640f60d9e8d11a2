// Clients that leave, stall or are too many, and the end of the server.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>

#include "raw_client.h"
#include "test_server.h"

namespace pagoda::net::testing {
namespace {

using std::chrono::milliseconds;

enum class Leave { kFin, kReset, kHalfClose };

void leave(RawClient& client, Leave how) {
  if (how == Leave::kFin) client.close();
  if (how == Leave::kReset) client.reset();
  if (how == Leave::kHalfClose) client.shutdown_write();
}

class HttpClientGone : public ::testing::TestWithParam<Leave> {
 protected:
  bool gone(int count) {
    return eventually([&] { return server_.gone() == count && server_.http().active_requests() == 0; });
  }
  TestServer server_;
};

TEST_P(HttpClientGone, BeforeTheAnswerBegins) {
  RawClient client(server_.port());
  ASSERT_TRUE(client.send(make_request("POST", "/hold", "", "x")));
  auto writer = server_.wait_held();
  leave(client, GetParam());
  EXPECT_TRUE(gone(1));
  EXPECT_TRUE(writer->closed());
  writer->respond(200, {}, "to nobody");
  EXPECT_EQ(writer->pending_bytes(), 0U);
  int late = 0;
  writer->on_close([&] { ++late; });
  EXPECT_EQ(late, 1);
  ASSERT_TRUE(eventually([&] { return server_.observations().size() == 1; }));
  EXPECT_EQ(server_.observations()[0].status, 499);
}

TEST_P(HttpClientGone, InAStream) {
  RawClient client(server_.port());
  ASSERT_TRUE(client.send(make_request("GET", "/hold")));
  auto writer = server_.wait_held();
  writer->begin_stream(200, {});
  writer->write("one");
  EXPECT_EQ(client.read_head().status, 200);
  leave(client, GetParam());
  EXPECT_TRUE(gone(1));
  writer->write("two");
  writer->end_stream();
}

TEST_P(HttpClientGone, WithPipelinedRequestsBehind) {
  RawClient client(server_.port());
  const std::string next = make_request("POST", "/echo", "", "next");
  ASSERT_TRUE(client.send(make_request("GET", "/hold") + next));
  auto writer = server_.wait_held();
  leave(client, GetParam());
  EXPECT_TRUE(gone(1));
  EXPECT_TRUE(server_.requests().empty());
}

TEST_P(HttpClientGone, WithMorePipelinedThanIsRead) {
  RawClient client(server_.port());
  ASSERT_TRUE(client.send(make_request("GET", "/hold")));
  auto writer = server_.wait_held();
  // Beyond the 64 KiB that are kept, so the server stops reading and has to notice the end in another way.
  // The rest fits the kernel's buffer: a FIN behind bytes that don't fit would stay on the client's side.
  ASSERT_TRUE(client.send(std::string(100000, 'G')));
  leave(client, GetParam());
  EXPECT_TRUE(gone(1));
}

TEST_P(HttpClientGone, InsideTheBody) {
  RawClient client(server_.port());
  ASSERT_TRUE(client.send("POST /hold HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n12345"));
  ASSERT_TRUE(eventually([&] { return server_.http().active_requests() == 1; }));
  leave(client, GetParam());
  EXPECT_TRUE(gone(0));
  EXPECT_TRUE(server_.held().empty());
}

INSTANTIATE_TEST_SUITE_P(Ways, HttpClientGone,
                         ::testing::Values(Leave::kFin, Leave::kReset, Leave::kHalfClose));

TEST(HttpClientGoneToo, ManyTimesAndNothingIsLeft) {
  TestServer server;
  for (int i = 0; i < 200; ++i) {
    RawClient client(server.port());
    ASSERT_TRUE(client.send(make_request("POST", "/hold", "", "x")));
    server.wait_held(static_cast<size_t>(i));
    leave(client, static_cast<Leave>(i % 3));
    ASSERT_TRUE(eventually([&] { return server.gone() == i + 1; }));
  }
  EXPECT_EQ(server.http().active_requests(), 0);
}

TEST(HttpClientGoneToo, ACompleteAnswerIsSentAfterAHalfClose) {
  TestServer server;
  RawClient client(server.port());
  ASSERT_TRUE(client.send(make_request("GET", "/health")));
  client.shutdown_write();
  EXPECT_EQ(client.read_response().body, "ok");
  EXPECT_TRUE(client.server_closes());
}

TEST(HttpSlowClient, IsCutWhenTooMuchIsPending) {
  HttpServerOptions options;
  options.max_pending_bytes = 100000;
  TestServer server(options);
  RawClient client(server.port());
  client.shrink_receive_buffer();
  ASSERT_TRUE(client.send(make_request("GET", "/hold")));
  auto writer = server.wait_held();
  writer->begin_stream(200, {});
  size_t pending_max = 0;
  // The kernel's buffers take some megabytes before the server's own fill up.
  ASSERT_TRUE(eventually([&] {
    for (int i = 0; i < 8; ++i) {
      writer->write(std::string(10000, 'x'));
      pending_max = std::max(pending_max, writer->pending_bytes());
    }
    return writer->closed();
  }));
  EXPECT_EQ(server.gone(), 1);
  EXPECT_LT(pending_max, 100000U + 2 * 10100U);
  RawClient other(server.port());
  ASSERT_TRUE(other.send(make_request("GET", "/health")));
  EXPECT_EQ(other.read_response().body, "ok");
}

TEST(HttpSlowClient, IsCutWhenItTakesNothing) {
  HttpServerOptions options;
  options.idle_timeout = milliseconds(200);
  TestServer server(options);
  RawClient client(server.port());
  client.shrink_receive_buffer();
  ASSERT_TRUE(client.send(make_request("GET", "/hold")));
  server.wait_held()->respond(200, {}, std::string(64 << 20, 'x'));
  EXPECT_TRUE(eventually([&] { return server.http().active_requests() == 0; }));
  EXPECT_EQ(server.observations().at(0).status, 499);
}

TEST(HttpTimeouts, ASlowAnswerIsNoIdleConnection) {
  HttpServerOptions options;
  options.idle_timeout = options.header_timeout = options.body_timeout = milliseconds(50);
  TestServer server(options);
  RawClient client(server.port());
  ASSERT_TRUE(client.send(make_request("POST", "/hold", "", "x")));
  auto writer = server.wait_held();
  // Another connection's time-outs, all after this one's began, show that the time has passed.
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(RawClient(server.port()).server_closes());
  writer->respond(200, {}, "late");
  EXPECT_EQ(client.read_response().body, "late");
}

TEST(HttpTimeouts, IdleConnectionsAreClosedWithoutAWord) {
  HttpServerOptions options;
  options.idle_timeout = milliseconds(100);
  TestServer server(options);
  RawClient fresh(server.port());
  EXPECT_EQ(fresh.read_to_end(), "");
  RawClient used(server.port());
  ASSERT_TRUE(used.send(make_request("GET", "/health")));
  EXPECT_EQ(used.read_response().body, "ok");
  EXPECT_EQ(used.read_to_end(), "");
}

TEST(HttpTimeouts, ASlowHeadIs408HoweverItTrickles) {
  HttpServerOptions options;
  options.header_timeout = milliseconds(200);
  TestServer server(options);
  RawClient client(server.port());
  std::string sent = "GET /health HTTP/1.1\r\nHost: h\r\nX: ";
  ASSERT_TRUE(client.send(sent));
  std::atomic<bool> closed{false};
  std::thread trickle([&] {
    while (!closed && client.send("a")) std::this_thread::sleep_for(milliseconds(5));
  });
  const RawResponse response = client.read_response();
  closed = true;
  trickle.join();
  EXPECT_EQ(response.status, 408);
  EXPECT_EQ(response.header("connection"), "close");
}

TEST(HttpTimeouts, ASilentBodyIs408) {
  HttpServerOptions options;
  options.body_timeout = milliseconds(200);
  TestServer server(options);
  for (const char* expect : {"", "Expect: 100-continue\r\n"}) {
    RawClient client(server.port());
    ASSERT_TRUE(
        client.send(fmt::format("POST /echo HTTP/1.1\r\nHost: h\r\n{}Content-Length: 10\r\n\r\n", expect)));
    if (*expect != '\0') {
      EXPECT_EQ(client.read_response().status, 100);
    }
    ASSERT_TRUE(client.send("12345"));
    EXPECT_EQ(client.read_response().status, 408);
    EXPECT_TRUE(client.server_closes());
  }
}

TEST(HttpLimits, TooManyConnectionsGet503) {
  HttpServerOptions options;
  options.max_connections = 2;
  TestServer server(options);
  RawClient first(server.port());
  auto second = std::make_unique<RawClient>(server.port());
  for (RawClient* client : {&first, second.get()}) {
    ASSERT_TRUE(client->send(make_request("GET", "/health")));
    EXPECT_EQ(client->read_response().body, "ok");
  }
  RawClient third(server.port());
  const RawResponse refused = third.read_response();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.header("connection"), "close");
  EXPECT_TRUE(third.server_closes());
  third.close();
  second.reset();
  EXPECT_TRUE(eventually([&] {
    RawClient next(server.port());
    return next.send(make_request("GET", "/health")) && next.read_response().status == 200;
  }));
}

// Counts warnings.
class WarningSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  std::atomic<int> warnings{0};

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (message.level == spdlog::level::warn) warnings.fetch_add(1);
  }
  void flush_() override {}
};

TEST(HttpLimits, ALackOfFileDescriptorsIsOutlived) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "UBSan's check of virtual calls, built together with ASan, needs a pipe() of its own";
#endif
  const auto sink = std::make_shared<WarningSink>();
  const auto logger_before = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", sink));
  TestServer server;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{.rlim_cur = std::min<rlim_t>(before.rlim_cur, 256), .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<int> taken;
  for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) taken.push_back(fd);
  ASSERT_FALSE(taken.empty());
  ::close(taken.back());
  taken.pop_back();
  RawClient client(server.port());  // takes the last one; the server has none to accept with
  const bool sent = client.send(make_request("GET", "/health"));
  const bool warned = eventually([&] { return sink->warnings > 0; });
  for (const int fd : taken) ::close(fd);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(warned) << "accept() has not failed";
  ASSERT_TRUE(client.connected() && sent);
  EXPECT_EQ(client.read_response().body, "ok");
  server.http().stop();
  spdlog::set_default_logger(logger_before);
}

TEST(HttpDrain, RunningAnswersFinishAndIdleConnectionsEnd) {
  TestServer server;
  RawClient idle(server.port());
  ASSERT_TRUE(idle.send(make_request("GET", "/health")));
  EXPECT_EQ(idle.read_response().body, "ok");
  RawClient waiting(server.port());
  ASSERT_TRUE(waiting.send(make_request("GET", "/hold")));
  auto answer = server.wait_held(0);
  RawClient streaming(server.port());
  ASSERT_TRUE(streaming.send(make_request("GET", "/hold")));
  auto stream = server.wait_held(1);
  stream->begin_stream(200, {});
  stream->write("a");

  server.http().begin_drain();
  server.http().begin_drain();
  EXPECT_EQ(idle.read_to_end(), "");
  EXPECT_TRUE(eventually([&] { return !RawClient(server.port()).connected(); }));
  EXPECT_EQ(server.http().active_requests(), 2);

  answer->respond(200, {}, "last");
  const RawResponse last = waiting.read_response();
  EXPECT_EQ(last.body, "last");
  EXPECT_EQ(last.header("connection"), "close");
  EXPECT_TRUE(waiting.server_closes());
  stream->write("b");
  stream->end_stream();
  EXPECT_EQ(streaming.read_response().body, "ab");
  EXPECT_TRUE(streaming.server_closes()) << "its head was sent before the drain, yet nothing may follow";
  EXPECT_TRUE(eventually([&] { return server.http().active_requests() == 0; }));
  EXPECT_EQ(server.gone(), 0);
}

TEST(HttpStop, CutsEverythingAndWritersOutliveTheServer) {
  std::shared_ptr<ResponseWriter> writer;
  std::shared_ptr<ResponseWriter> stream;
  {
    TestServer server;
    RawClient waiting(server.port());
    ASSERT_TRUE(waiting.send(make_request("GET", "/hold")));
    writer = server.wait_held(0);
    RawClient streaming(server.port());
    ASSERT_TRUE(streaming.send(make_request("GET", "/hold")));
    stream = server.wait_held(1);
    stream->begin_stream(200, {});
    EXPECT_EQ(streaming.read_head().status, 200);
    server.http().stop();
    server.http().stop();
    EXPECT_EQ(server.gone(), 2);
    EXPECT_EQ(server.http().active_requests(), 0);
    EXPECT_TRUE(waiting.server_closes());
    EXPECT_TRUE(streaming.server_closes());
  }
  writer->respond(200, {}, "no-op");
  stream->write("no-op");
  EXPECT_TRUE(stream->closed());
}

TEST(HttpStop, WhileClientsConnectAndWritersWrite) {
  for (int round = 0; round < 20; ++round) {
    HttpServerOptions options;
    options.io_threads = 2;
    auto server = std::make_unique<TestServer>(options);
    const uint16_t port = server->port();
    std::atomic<bool> over{false};
    std::thread connecting([&] {
      while (!over) {
        RawClient client(port);
        if (client.connected()) client.send(make_request("GET", "/health"));
      }
    });
    RawClient client(port);
    ASSERT_TRUE(client.send(make_request("GET", "/hold")));
    auto writer = server->wait_held();
    std::thread writing([&] {
      writer->begin_stream(200, {});
      for (int i = 0; i < 1000; ++i) writer->write("x");
    });
    server->http().stop();
    writing.join();
    over = true;
    connecting.join();
    EXPECT_TRUE(writer->closed());
  }
}

TEST(HttpStart, AnUsedPortIsAnError) {
  TestServer first;
  HttpServerOptions options;
  options.port = first.port();
  HttpServer second(options, [](int, std::string_view, std::string_view) { return std::string(); });
  const auto started = second.start();
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().kind, ErrorKind::kIo);
  EXPECT_NE(started.error().message.find(fmt::format("127.0.0.1:{}: Address already in use", first.port())),
            std::string::npos)
      << started.error().message;
}

TEST(HttpUnixSocket, ServesAndRemovesItsFile) {
  std::string directory = (std::filesystem::temp_directory_path() / "pagoda-net-XXXXXX").string();
  ASSERT_NE(::mkdtemp(directory.data()), nullptr);
  const std::string path = directory + "/socket";
  {
    HttpServerOptions options;
    options.uds = path;
    TestServer server(options);
    ASSERT_EQ(server.error(), "");
    EXPECT_EQ(server.port(), 0);
    RawClient client(path);
    ASSERT_TRUE(client.send(make_request("POST", "/echo", "", "x")));
    EXPECT_EQ(client.read_response().body, "x");
    EXPECT_EQ(server.requests().at(0).remote, "unix");
    RawClient leaving(path);
    ASSERT_TRUE(leaving.send(make_request("GET", "/hold")));
    server.wait_held();
    leaving.close();
    EXPECT_TRUE(eventually([&] { return server.gone() == 1; }));
    TestServer second(options);
    EXPECT_NE(second.error().find("another server listens there"), std::string::npos) << second.error();
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace pagoda::net::testing
