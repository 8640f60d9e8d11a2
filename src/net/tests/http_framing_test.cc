// What is a request and where does it end: RFC 9112, over a real socket, while another client's stream runs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "raw_client.h"
#include "test_server.h"

namespace pagoda::net::testing {
namespace {

const std::string kBody = R"({"prompt":"hi","max_tokens":1})";

std::string post(std::string_view header_lines, std::string_view body) {
  return fmt::format("POST /echo HTTP/1.1\r\nHost: h\r\n{}\r\n{}", header_lines, body);
}
std::string chunked(std::string_view body) {
  return post("Transfer-Encoding: chunked\r\n", body);
}

struct Refused {
  const char* name;
  std::string bytes;
  int status = 400;
};

std::vector<Refused> refused_table() {
  const std::string get = "GET /health HTTP/1.1\r\n";
  return {
      {"chunked and length 3", post("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", "0\r\n\r\n")},
      {"chunked and length 0", post("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", "0\r\n\r\n")},
      {"length before chunked", post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n")},
      {"chunked, gzip", post("Transfer-Encoding: chunked, gzip\r\n", "0\r\n\r\n")},
      {"gzip, chunked", post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n")},
      {"identity", post("Transfer-Encoding: identity\r\n", "")},
      {"chunked twice", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n")},
      {"xchunked", post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n")},
      {"space before colon", post("Transfer-Encoding : chunked\r\n", "0\r\n\r\n")},
      {"tab before colon", post("Content-Length\t: 2\r\n", "{}")},
      {"two lengths", post("Content-Length: 2\r\nContent-Length: 3\r\n", "{}")},
      {"two equal lengths", post("Content-Length: 2\r\nContent-Length: 2\r\n", "{}")},
      {"length +2", post("Content-Length: +2\r\n", "{}")},
      {"length -1", post("Content-Length: -1\r\n", "{}")},
      {"length 2, 2", post("Content-Length: 2, 2\r\n", "{}")},
      {"length of 30 nines", post("Content-Length: " + std::string(30, '9') + "\r\n", "{}")},
      {"length 0x2", post("Content-Length: 0x2\r\n", "{}")},
      {"length 2 3", post("Content-Length: 2 3\r\n", "{}")},
      {"empty length", post("Content-Length:\r\n", "{}")},
      {"chunk size of 17 digits", chunked("10000000000000000\r\n{}\r\n0\r\n\r\n")},
      {"chunk size -1", chunked("-1\r\n{}\r\n0\r\n\r\n")},
      {"chunk size -1 and nothing more", chunked("-1\r\n")},
      {"empty chunk size and nothing more", chunked("\r\n")},
      {"chunk size g and nothing more", chunked("g\r\n")},
      {"chunk size 0x2", chunked("0x2\r\n{}\r\n0\r\n\r\n")},
      {"empty chunk size", chunked("\r\n{}\r\n0\r\n\r\n")},
      {"chunk size g", chunked("g\r\n{}\r\n0\r\n\r\n")},
      {"bad chunk end", chunked("2\r\n{}XX0\r\n\r\n")},
      {"chunk longer than its size", chunked("2\r\n{}}\r\n0\r\n\r\n")},
      {"bad trailer", chunked("2\r\n{}\r\n0\r\nno colon\r\n\r\n")},
      {"length in the trailer", chunked("2\r\n{}\r\n0\r\nContent-Length: 2\r\n\r\n")},
      {"bare LF", "GET /health HTTP/1.1\nHost: h\n\n"},
      {"bare LF in fields", get + "Host: h\nX: y\r\n\r\n"},
      {"bare CR", get + "Host: h\rX: y\r\n\r\n"},
      {"NUL in a value", get + "Host: h\r\nX: a" + std::string(1, '\0') + "b\r\n\r\n"},
      {"folded field", get + "Host: h\r\nX: a\r\n b\r\n\r\n"},
      {"fold after the request line", get + " Host: h\r\n\r\n"},
      {"no Host", get + "\r\n"},
      {"two Hosts", get + "Host: h\r\nHost: h\r\n\r\n"},
      {"Host with a path", get + "Host: h/x\r\n\r\n"},
      {"field without a name", get + "Host: h\r\n: x\r\n\r\n"},
      {"field without a colon", get + "Host: h\r\nabc\r\n\r\n"},
      {"chunked in HTTP/1.0", "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
      {"no version", "GET /health\r\nHost: h\r\n\r\n"},
      {"lower-case version", "GET /health http/1.1\r\nHost: h\r\n\r\n"},
      {"two spaces", "GET  /health HTTP/1.1\r\nHost: h\r\n\r\n"},
      {"non-ASCII target", "GET /h\xc3\xa9 HTTP/1.1\r\nHost: h\r\n\r\n"},
      {"relative target", "GET health HTTP/1.1\r\nHost: h\r\n\r\n"},
      {"two empty lines first", "\r\n\r\nGET /health HTTP/1.1\r\nHost: h\r\n\r\n"},
      {"a TLS hello", std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11)},
      {"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
      {"gzip body", post("Content-Encoding: gzip\r\nContent-Length: 2\r\n", "{}"), 415},
      {"unknown expectation", post("Expect: 200-maybe\r\nContent-Length: 2\r\n", "{}"), 417},
      {"header line of 100 kB", get + "Host: h\r\nX: " + std::string(100000, 'a') + "\r\n\r\n", 431},
      {"target of 100 kB", "GET /" + std::string(100000, 'a') + " HTTP/1.1\r\nHost: h\r\n\r\n", 431},
  };
}

class HttpFraming : public ::testing::Test {
 protected:
  // A stream of another client, which whatever the test does must not disturb.
  void SetUp() override {
    ASSERT_TRUE(streaming_.send(make_request("GET", "/hold")));
    writer_ = server_.wait_held();
    writer_->begin_stream(200, {});
    writer_->write("first");
  }
  void TearDown() override {
    writer_->write("last");
    writer_->end_stream();
    EXPECT_EQ(streaming_.read_response().body, "firstlast");
  }

  TestServer server_;
  RawClient streaming_{server_.port()};
  std::shared_ptr<ResponseWriter> writer_;
};

TEST_F(HttpFraming, MalformedRequestsAreRefusedAndClosed) {
  for (const Refused& row : refused_table()) {
    SCOPED_TRACE(row.name);
    RawClient client(server_.port());
    client.send(row.bytes);
    const RawResponse response = client.read_response();
    EXPECT_EQ(response.status, row.status);
    EXPECT_EQ(response.header("connection"), "close");
    EXPECT_EQ(response.header("content-type"), "application/json");
    EXPECT_TRUE(response.body.starts_with("{\"error\":")) << response.body;
    EXPECT_FALSE(response.header("x-request-id").empty());
    EXPECT_TRUE(client.server_closes());
  }
  EXPECT_TRUE(server_.requests().empty()) << "a malformed request reached its handler";
}

TEST_F(HttpFraming, MalformedRequestsAreRefusedByteByByte) {
  for (const Refused& row : refused_table()) {
    if (row.bytes.size() > 1000) continue;
    SCOPED_TRACE(row.name);
    RawClient client(server_.port());
    for (const char& byte : row.bytes) {
      if (!client.send({&byte, 1})) break;
    }
    EXPECT_EQ(client.read_response().status, row.status);
    EXPECT_TRUE(client.server_closes());
  }
}

TEST_F(HttpFraming, TenThousandFieldsAre431) {
  std::string request = "GET /health HTTP/1.1\r\nHost: h\r\n";
  for (int i = 0; i < 10000; ++i) request += "a:b\r\n";
  RawClient client(server_.port());
  client.send(request + "\r\n");
  EXPECT_EQ(client.read_response().status, 431);
  EXPECT_TRUE(client.server_closes());
}

TEST_F(HttpFraming, PipelinedRequestsAreAnsweredInOrder) {
  RawClient client(server_.port());
  std::string both;
  for (const std::string body : {"first", "second", "third"}) both += make_request("POST", "/echo", "", body);
  ASSERT_TRUE(client.send(both));
  EXPECT_EQ(client.read_response().body, "first");
  EXPECT_EQ(client.read_response().body, "second");
  EXPECT_EQ(client.read_response().body, "third");
}

TEST_F(HttpFraming, PipelinedBytesOutliveAHeldAnswer) {
  RawClient client(server_.port());
  ASSERT_TRUE(
      client.send(make_request("POST", "/hold", "", "x") + make_request("POST", "/echo", "", "next")));
  auto writer = server_.wait_held(1);
  ASSERT_TRUE(client.send(make_request("POST", "/echo", "", "after next")));
  writer->respond(200, {}, "held");
  EXPECT_EQ(client.read_response().body, "held");
  EXPECT_EQ(client.read_response().body, "next");
  EXPECT_EQ(client.read_response().body, "after next");
}

TEST_F(HttpFraming, PostWithoutBodyThenGet) {
  RawClient client(server_.port());
  ASSERT_TRUE(client.send("POST /echo HTTP/1.1\r\nHost: h\r\n\r\nGET /health HTTP/1.1\r\nHost: h\r\n\r\n"));
  const RawResponse empty = client.read_response();
  EXPECT_EQ(empty.status, 200);
  EXPECT_EQ(empty.body, "");
  EXPECT_EQ(client.read_response().body, "ok");
}

TEST_F(HttpFraming, BytesBeyondTheLengthAreTheNextRequest) {
  RawClient client(server_.port());
  ASSERT_TRUE(client.send(post("Content-Length: 5\r\n", "{\"a\"}" + std::string(25, 'z') + "\r\n")));
  EXPECT_EQ(client.read_response().body, "{\"a\"}");
  EXPECT_EQ(client.read_response().status, 400);
  EXPECT_TRUE(client.server_closes());
}

TEST_F(HttpFraming, OneEmptyLineBeforeARequestIsForgiven) {
  RawClient client(server_.port());
  ASSERT_TRUE(client.send(post("Content-Length: 2\r\n", "{}\r\n") + make_request("GET", "/health")));
  EXPECT_EQ(client.read_response().body, "{}");
  EXPECT_EQ(client.read_response().body, "ok");
}

TEST_F(HttpFraming, ChunkExtensionsAndTrailersAreAccepted) {
  const std::string body =
      fmt::format("{:x};a=b\r\n{}\r\n0;last\r\nX-Sum: 1\r\nAuthorization: no\r\n\r\n", kBody.size(), kBody);
  RawClient client(server_.port());
  ASSERT_TRUE(client.send(chunked(body) + make_request("GET", "/health")));
  EXPECT_EQ(client.read_response().body, kBody);
  EXPECT_EQ(client.read_response().body, "ok");
  ASSERT_EQ(server_.requests().size(), 1U);
  EXPECT_EQ(server_.requests()[0].header("authorization"), "") << "a trailer became a header";
}

TEST_F(HttpFraming, ChunksOfOneByteSentByteByByte) {
  std::string body;
  for (const char c : kBody) body += fmt::format("1\r\n{}\r\n", c);
  const std::string request = chunked(body + "0\r\nX: y\r\n\r\n");
  RawClient client(server_.port());
  for (const char& byte : request) ASSERT_TRUE(client.send({&byte, 1}));
  EXPECT_EQ(client.read_response().body, kBody);
  ASSERT_TRUE(client.send(make_request("GET", "/health")));
  EXPECT_EQ(client.read_response().body, "ok");
}

TEST_F(HttpFraming, EndInsideARequestIs400) {
  for (const std::string& bytes :
       {post("Content-Length: 10\r\n", "12345"), chunked("5\r\nab"), std::string("GET /hea"),
        std::string("GET /health HTTP/1.1\r\nHost: h\r\n")}) {
    RawClient client(server_.port());
    ASSERT_TRUE(client.send(bytes));
    client.shutdown_write();
    EXPECT_EQ(client.read_response().status, 400);
    EXPECT_TRUE(client.server_closes());
  }
}

TEST_F(HttpFraming, Http10IsClosedAfterItsAnswerAndNotChunked) {
  RawClient plain(server_.port());
  ASSERT_TRUE(plain.send("POST /echo HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}"));
  const RawResponse answer = plain.read_response();
  EXPECT_EQ(answer.body, "{}");
  EXPECT_EQ(answer.header("connection"), "close");
  EXPECT_TRUE(plain.server_closes());

  RawClient stream(server_.port());
  ASSERT_TRUE(stream.send("GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
  const RawResponse events = stream.read_response();
  EXPECT_FALSE(events.has("transfer-encoding"));
  EXPECT_EQ(events.header("connection"), "close");
  EXPECT_EQ(events.body, "data: 1\n\ndata: 2\n\ndata: [DONE]\n\n");
}

TEST_F(HttpFraming, Http10KeepAliveOnRequest) {
  RawClient client(server_.port());
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(client.send("GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
    const RawResponse response = client.read_response();
    EXPECT_EQ(response.body, "ok");
    EXPECT_EQ(response.header("connection"), "keep-alive");
  }
}

TEST_F(HttpFraming, ConnectionCloseIsHonoured) {
  RawClient client(server_.port());
  ASSERT_TRUE(
      client.send(make_request("GET", "/health", "Connection: close\r\n") + make_request("GET", "/health")));
  const RawResponse response = client.read_response();
  EXPECT_EQ(response.body, "ok");
  EXPECT_EQ(response.header("connection"), "close");
  EXPECT_EQ(client.read_to_end(), "");
}

TEST_F(HttpFraming, AbsoluteTargetIsUnderstood) {
  RawClient client(server_.port());
  ASSERT_TRUE(client.send("GET http://example.com/health HTTP/1.1\r\nHost: example.com\r\n\r\n"));
  EXPECT_EQ(client.read_response().body, "ok");
}

TEST(HttpBody, TooLargeByLengthIsRefusedBeforeItIsRead) {
  HttpServerOptions options;
  options.max_body_bytes = 1000;
  TestServer server(options);
  RawClient client(server.port());
  ASSERT_TRUE(client.send(post("Content-Length: 100000000\r\n", "")));
  const RawResponse response = client.read_response();
  EXPECT_EQ(response.status, 413);
  EXPECT_NE(response.body.find("1000 bytes"), std::string::npos) << response.body;
  EXPECT_TRUE(client.server_closes());

  RawClient fitting(server.port());
  ASSERT_TRUE(fitting.send(make_request("POST", "/echo", "", std::string(1000, 'x'))));
  EXPECT_EQ(fitting.read_response().body.size(), 1000U);
}

TEST(HttpBody, TooLargeInChunksIsRefusedWhileReading) {
  HttpServerOptions options;
  options.max_body_bytes = 1000;
  TestServer server(options);
  RawClient client(server.port());
  const std::string chunk = "190\r\n" + std::string(400, 'x') + "\r\n";
  ASSERT_TRUE(client.send(chunked(chunk + chunk + chunk)));
  EXPECT_EQ(client.read_response().status, 413);
  EXPECT_TRUE(client.server_closes());
  EXPECT_TRUE(server.requests().empty());
}

TEST(HttpBody, AnEndlessChunkExtensionOrTrailerIsRefused) {
  HttpServerOptions options;
  options.max_header_bytes = 1000;
  TestServer server(options);
  for (const char* start : {"2;a=", "0\r\nX: "}) {
    RawClient client(server.port());
    client.send(chunked(start + std::string(100000, 'a')));
    EXPECT_EQ(client.read_response().status, 431);
    EXPECT_TRUE(client.server_closes());
  }
}

TEST(HttpBody, AnUploadThatIsRefusedStillGetsItsAnswer) {
  HttpServerOptions options;
  options.max_body_bytes = 1000;
  TestServer server(options);
  RawClient client(server.port());
  // All of it is sent before the answer is read: a server that closed with unread input would reset the
  // connection.
  const std::string body(4 << 20, 'x');
  ASSERT_TRUE(client.send(make_request("POST", "/echo", "", body)));
  EXPECT_EQ(client.read_response().status, 413);
}

TEST(HttpBody, ManyAnnouncedBodiesCostNothing) {
  TestServer server;
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 100; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
    ASSERT_TRUE(clients.back()->send(post("Content-Length: 100000000\r\n", "x")));
  }
  for (auto& client : clients) EXPECT_EQ(client->read_response().status, 413);
}

TEST(HttpBody, LargeBodiesArriveWhole) {
  TestServer server;
  std::string body;
  for (int i = 0; i < 500000; ++i) body += std::to_string(i);
  RawClient client(server.port());
  std::thread sender([&] { client.send(make_request("POST", "/echo", "", body)); });
  const RawResponse response = client.read_response();
  sender.join();
  EXPECT_TRUE(response.body == body) << response.body.size() << " of " << body.size();
}

TEST(HttpBody, ExpectContinueIsAnswered) {
  TestServer server;
  RawClient client(server.port());
  ASSERT_TRUE(client.send(post("Content-Length: 2\r\nExpect: 100-continue\r\n", "")));
  EXPECT_EQ(client.read_response().status, 100);
  ASSERT_TRUE(client.send("{}"));
  EXPECT_EQ(client.read_response().body, "{}");

  ASSERT_TRUE(
      client.send("POST /nowhere HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"));
  EXPECT_EQ(client.read_response().status, 404) << "the body was asked for in vain";
}

}  // namespace
}  // namespace pagoda::net::testing
