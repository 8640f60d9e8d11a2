// Routing, fields, errors and the observer over a real socket.
#include "net/http_server.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "raw_client.h"
#include "test_server.h"

namespace pagoda::net::testing {
namespace {

class HttpServerTest : public ::testing::Test {
 protected:
  RawResponse ask(std::string_view method, std::string_view path, std::string_view header_lines = {},
                  std::string_view body = {}) {
    EXPECT_TRUE(client_.send(make_request(method, path, header_lines, body)));
    return client_.read_response(method == "HEAD");
  }
  bool observed(const std::string& handler, const std::string& method, int status) {
    return eventually([&] {
      for (const auto& seen : server_.observations()) {
        if (seen.handler == handler && seen.method == method && seen.status == status) return true;
      }
      return false;
    });
  }

  TestServer server_;
  RawClient client_{server_.port()};
};

TEST_F(HttpServerTest, EveryAnswerHasTheServersFields) {
  for (const char* path : {"/health", "/nowhere", "/stream"}) {
    const RawResponse response = ask("GET", path);
    EXPECT_EQ(response.header("server"), "pagoda");
    EXPECT_EQ(response.header("x-request-id").size(), 32U);
    EXPECT_TRUE(response.header("date").ends_with(" GMT"));
  }
}

TEST_F(HttpServerTest, EchoesTheClientsRequestId) {
  EXPECT_EQ(ask("POST", "/echo", "x-request-ID: abc-1\r\n", "x").header("x-request-id"), "abc-1");
  EXPECT_EQ(server_.requests().at(0).request_id, "abc-1");
  EXPECT_EQ(ask("GET", "/nowhere", "X-Request-Id: abc-2\r\n").header("x-request-id"), "abc-2");
  EXPECT_NE(ask("GET", "/health", "X-Request-Id: a b\r\n").header("x-request-id"), "a b");
}

TEST_F(HttpServerTest, HandlersGetTheWholeRequest) {
  ask("POST", "/echo?a=1&b", "X-A: 1\r\nX-a: 2\r\n", "body");
  const HttpRequest request = server_.requests().at(0);
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.path, "/echo");
  EXPECT_EQ(request.query, "a=1&b");
  EXPECT_EQ(request.header("x-A"), "1");
  EXPECT_EQ(request.body, "body");
  EXPECT_TRUE(request.remote.starts_with("127.0.0.1:")) << request.remote;
  EXPECT_EQ(ask("GET", "/models/a%2Fb?q").body, "/models/a%2Fb?q");
}

TEST_F(HttpServerTest, HeadIsGetWithoutItsBody) {
  const RawResponse head = ask("HEAD", "/health");
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.header("content-length"), "2");
  EXPECT_EQ(ask("HEAD", "/stream").status, 200);
  EXPECT_EQ(ask("GET", "/health").body, "ok") << "a body after HEAD broke the framing";
}

TEST_F(HttpServerTest, UnknownPathsAndMethods) {
  EXPECT_EQ(ask("GET", "/nowhere").status, 404);
  EXPECT_EQ(ask("GET", "/health/").status, 404);
  EXPECT_EQ(ask("GET", "//health").status, 404);
  EXPECT_EQ(ask("GET", "/he%61lth").status, 404);
  const RawResponse wrong = ask("DELETE", "/health");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.header("allow"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(wrong.header("content-type"), "application/json");
  EXPECT_TRUE(observed("/health", "DELETE", 405));
  ask("BREW", "/health");
  EXPECT_TRUE(observed("/health", "OTHER", 405));
  EXPECT_TRUE(observed("unmatched", "GET", 404));
}

TEST_F(HttpServerTest, UnroutedRequestWithABodyClosesTheConnection) {
  const RawResponse response = ask("POST", "/nowhere", "", "some body");
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(response.header("connection"), "close");
  EXPECT_TRUE(client_.server_closes());
}

TEST_F(HttpServerTest, OptionsNamesTheMethods) {
  const std::string preflight = "Origin: https://a\r\nAccess-Control-Request-Method: GET\r\n";
  const RawResponse response = ask("OPTIONS", "/health", preflight);
  EXPECT_EQ(response.status, 204);
  EXPECT_EQ(response.header("allow"), "GET, HEAD, OPTIONS");
  EXPECT_FALSE(response.has("access-control-allow-origin"));
  EXPECT_FALSE(response.has("content-length"));
  EXPECT_EQ(ask("OPTIONS", "/nowhere").status, 404);
}

TEST(HttpCors, PreflightAndAnswers) {
  HttpServerOptions options;
  options.allowed_origins = "https://a, https://b";
  TestServer server(options);
  RawClient client(server.port());
  const auto ask = [&](std::string_view method, std::string_view path, std::string_view lines) {
    EXPECT_TRUE(client.send(make_request(method, path, lines)));
    return client.read_response();
  };
  const RawResponse preflight = ask("OPTIONS", "/echo",
                                    "Origin: https://b\r\nAccess-Control-Request-Method: POST\r\n"
                                    "Access-Control-Request-Headers: authorization, x-a\r\n");
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.header("access-control-allow-origin"), "https://b");
  EXPECT_EQ(preflight.header("access-control-allow-methods"), "POST, OPTIONS");
  EXPECT_EQ(preflight.header("access-control-allow-headers"), "authorization, x-a");
  EXPECT_EQ(ask("GET", "/health", "Origin: https://a\r\n").header("access-control-allow-origin"),
            "https://a");
  EXPECT_EQ(ask("GET", "/nowhere", "Origin: https://a\r\n").header("access-control-allow-origin"),
            "https://a");
  EXPECT_FALSE(ask("GET", "/health", "Origin: https://c\r\n").has("access-control-allow-origin"));
  EXPECT_FALSE(ask("OPTIONS", "/echo", "Origin: https://c\r\nAccess-Control-Request-Method: POST\r\n")
                   .has("access-control-allow-methods"));
}

TEST_F(HttpServerTest, AThrowingHandlerIs500AndTheProcessLives) {
  const RawResponse response = ask("GET", "/throw");
  EXPECT_EQ(response.status, 500);
  EXPECT_EQ(response.body.find("meant to fail"), std::string::npos) << "inner details left the process";
  EXPECT_EQ(ask("GET", "/health").body, "ok");
  EXPECT_TRUE(observed("/throw", "GET", 500));
}

TEST_F(HttpServerTest, AnUnansweredRequestIs500) {
  EXPECT_EQ(ask("POST", "/drop", "", "x").status, 500);
  EXPECT_EQ(ask("GET", "/health").body, "ok");
}

TEST_F(HttpServerTest, StreamsAreChunked) {
  const RawResponse response = ask("GET", "/stream");
  EXPECT_TRUE(response.chunked);
  EXPECT_EQ(response.header("content-type"), "text/event-stream");
  EXPECT_EQ(response.body, "data: 1\n\ndata: 2\n\ndata: [DONE]\n\n");
}

TEST_F(HttpServerTest, EachWriteIsFlushedAtOnce) {
  ASSERT_TRUE(client_.send(make_request("GET", "/hold")));
  auto writer = server_.wait_held();
  writer->begin_stream(200, {});
  EXPECT_EQ(client_.read_head().status, 200) << "the head waits for the first event";
  for (int i = 0; i < 50; ++i) {
    const std::string event = fmt::format("event {}", i);
    writer->write(event);
    EXPECT_EQ(client_.read_some(), fmt::format("{:x}\r\n{}\r\n", event.size(), event));
  }
  writer->end_stream();
  EXPECT_EQ(client_.read_some(), "0\r\n\r\n");
  EXPECT_TRUE(eventually([&] { return writer->pending_bytes() == 0; }));
}

TEST_F(HttpServerTest, WritesFromManyThreadsStayWhole) {
  ASSERT_TRUE(client_.send(make_request("GET", "/hold")));
  auto writer = server_.wait_held();
  writer->begin_stream(200, {});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&writer, t] {
      for (int i = 0; i < 500; ++i) writer->write(fmt::format("<{}:{}>", t, i));
    });
  }
  for (auto& thread : threads) thread.join();
  writer->end_stream();
  const std::string body = client_.read_response().body;
  for (int t = 0; t < 4; ++t) {
    size_t at = 0;
    for (int i = 0; i < 500; ++i) {
      at = body.find(fmt::format("<{}:{}>", t, i), at);
      ASSERT_NE(at, std::string::npos) << t << ":" << i;
    }
  }
}

TEST(HttpConcurrency, ManyConnectionsManyRequests) {
  for (const int io_threads : {1, 4}) {
    HttpServerOptions options;
    options.io_threads = io_threads;
    TestServer server(options);
    std::atomic<int> right{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 64; ++t) {
      threads.emplace_back([&, t] {
        RawClient client(server.port());
        for (int i = 0; i < 50; ++i) {
          const std::string body = fmt::format("{}/{}", t, i);
          client.send(make_request("POST", "/echo", "", body));
          if (client.read_response().body == body) right.fetch_add(1);
        }
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(right, 64 * 50);
    EXPECT_TRUE(eventually([&] { return server.observations().size() == 64U * 50U; }));
    EXPECT_EQ(server.http().active_requests(), 0);
  }
}

}  // namespace
}  // namespace pagoda::net::testing
