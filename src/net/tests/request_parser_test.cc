#include "net/request_parser.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/rng.h"

namespace pagoda::net {
namespace {

using namespace std::string_literals;

const std::string kChunkedHead = "POST /a?b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";

// Feeds `bytes` in pieces of `step`, as a session does; returns the bytes left over once the body is done.
std::string feed(RequestParser& parser, const std::string& bytes, size_t step) {
  std::string input;
  size_t at = 0;
  while (at < bytes.size() && !parser.done() && !parser.body_fault()) {
    const size_t count = std::min(step, bytes.size() - at);
    input += bytes.substr(at, count);
    at += count;
    input.erase(0, parser.feed_body(input));
  }
  return input + bytes.substr(at);
}

TEST(RequestParser, ReadsTheHead) {
  RequestParser parser(100);
  ASSERT_FALSE(
      parser.parse_head("POST /a?b HTTP/1.1\r\nHost: h\r\nx-A:  b c \r\nExpect: 100-continue\r\n"
                        "Content-Length: 3\r\n\r\n"));
  const RequestHead& head = parser.head();
  EXPECT_EQ(head.method, "POST");
  EXPECT_EQ(head.target, "/a?b");
  EXPECT_TRUE(head.http11 && head.keep_alive && head.has_body && head.expect_continue);
  ASSERT_EQ(head.headers.size(), 4U);
  EXPECT_EQ(head.headers[1], (std::pair<std::string, std::string>("x-A", "b c")));
  EXPECT_EQ(parser.feed_body("abcdef"), 3U);
  EXPECT_TRUE(parser.done());
  EXPECT_EQ(parser.take_body(), "abc");
}

TEST(RequestParser, RequestsWithoutABodyAreDone) {
  for (const char* field : {"", "Content-Length: 0\r\n", "Expect: 100-continue\r\n"}) {
    RequestParser parser(100);
    ASSERT_FALSE(parser.parse_head(fmt::format("BREW / HTTP/1.1\r\nHost: h\r\n{}\r\n", field)));
    EXPECT_EQ(parser.head().method, "BREW");
    EXPECT_TRUE(parser.done());
    EXPECT_FALSE(parser.head().has_body || parser.head().expect_continue);
    EXPECT_EQ(parser.take_body(), "");
  }
}

TEST(RequestParser, KeepAlive) {
  const auto keep_alive = [](const std::string& version, const std::string& field) {
    RequestParser parser(100);
    EXPECT_FALSE(parser.parse_head("GET / " + version + "\r\nHost: h\r\n" + field + "\r\n"));
    return parser.head().keep_alive;
  };
  EXPECT_TRUE(keep_alive("HTTP/1.1", ""));
  EXPECT_FALSE(keep_alive("HTTP/1.1", "Connection: x, Close\r\n"));
  EXPECT_FALSE(keep_alive("HTTP/1.0", ""));
  EXPECT_TRUE(keep_alive("HTTP/1.0", "Connection: Keep-Alive\r\n"));
}

TEST(RequestParser, ChunksInAnyPieces) {
  const std::string body = "3;x=\"y\"\r\nabc\r\n00a\r\n0123456789\r\n1\r\n\n\r\n0;z\r\nX: y\r\nZ: w\r\n\r\n";
  for (size_t step = 1; step <= body.size() + 5; ++step) {
    RequestParser parser(100);
    ASSERT_FALSE(parser.parse_head(kChunkedHead));
    EXPECT_EQ(feed(parser, body + "GET /", step), "GET /") << step;
    ASSERT_TRUE(parser.done()) << step;
    EXPECT_EQ(parser.take_body(), "abc0123456789\n");
    EXPECT_EQ(parser.head().headers.size(), 2U);
  }
}

TEST(RequestParser, BadChunksInAnyPieces) {
  for (const std::string& bad :
       {std::string("10000000000000000\r\n"), std::string("-1\r\nab\r\n"), std::string("\r\nab\r\n"),
        std::string("2 x\r\nab\r\n"), std::string("2\r\nabXX0\r\n\r\n"), std::string("2\r\nabc\r\n0\r\n\r\n"),
        std::string("0\r\nbad\r\n\r\n"), std::string("2\nab\r\n0\r\n\r\n"),
        std::string("0\r\nContent-Length: 1\r\n\r\n")}) {
    for (size_t step = 1; step <= bad.size(); ++step) {
      RequestParser parser(100);
      ASSERT_FALSE(parser.parse_head(kChunkedHead));
      feed(parser, bad, step);
      ASSERT_TRUE(parser.body_fault()) << bad << " by " << step;
      EXPECT_EQ(parser.body_fault()->status, 400);
    }
  }
}

TEST(RequestParser, ALastChunkInSmallPiecesIsNoAssertion) {
  for (size_t step = 1; step <= 4; ++step) {
    RequestParser parser(100);
    ASSERT_FALSE(parser.parse_head(kChunkedHead));
    feed(parser, "0\r\n\r\n", step);
    EXPECT_TRUE(parser.done());
  }
}

// Valid chunked bodies with some bytes changed, in random pieces: whatever the parser says, it says it in any
// pieces and never takes more than it is given.
TEST(RequestParser, MutatedChunksInRandomPieces) {
  constexpr uint64_t kSeed = 20240229;
  uint64_t counter = 0;
  const auto draw = [&](size_t below) {
    return static_cast<size_t>(uniform01(kSeed, 0, counter++) * double(below));
  };
  const std::string alphabet = "0123afF;=\"\r\n\r\n :X\0\t"s;  // has a NUL
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = "2;a=b\r\nab\r\n0c\r\n0123456789ab\r\n0\r\nX: y\r\n\r\n";
    for (size_t i = draw(4); i > 0; --i) bytes[draw(bytes.size())] = alphabet[draw(alphabet.size())];
    if (draw(3) == 0) bytes.erase(draw(bytes.size()), 1 + draw(3));
    const auto run = [&](auto next_step) {
      RequestParser parser(100);
      EXPECT_FALSE(parser.parse_head(kChunkedHead));
      std::string input;
      size_t at = 0;
      while (at < bytes.size() && !parser.done() && !parser.body_fault()) {
        const size_t count = std::min(next_step(), bytes.size() - at);
        input += bytes.substr(at, count);
        at += count;
        const size_t taken = parser.feed_body(input);
        EXPECT_LE(taken, input.size());
        input.erase(0, taken);
      }
      // Not told apart: a fault in the last bytes is found at once or when the next ones come.
      if (!parser.done()) return "fault or more"s;
      return "done " + parser.take_body() + "|" + input + bytes.substr(at);
    };
    const std::string whole = run([&] { return bytes.size(); });
    const std::string pieces = run([&] { return 1 + draw(6); });
    ASSERT_EQ(whole, pieces) << "seed " << kSeed << ", round " << round << ": "
                             << ::testing::PrintToString(bytes);
  }
}

TEST(RequestParser, LimitsTheBodyExactly) {
  RequestParser fits(10);
  EXPECT_FALSE(fits.parse_head("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n"));
  RequestParser too_long(9);
  const auto fault = too_long.parse_head("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n");
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->status, 413);
  EXPECT_EQ(too_long.head().method, "POST");

  for (const size_t limit : {9U, 10U}) {
    RequestParser chunked(limit);
    ASSERT_FALSE(chunked.parse_head(kChunkedHead));
    feed(chunked, "5\r\n01234\r\n5\r\n56789\r\n0\r\n\r\n", 1);
    EXPECT_EQ(chunked.done(), limit == 10);
    EXPECT_EQ(chunked.body_fault() ? chunked.body_fault()->status : 0, limit == 10 ? 0 : 413);
  }
  RequestParser huge(100);
  ASSERT_FALSE(huge.parse_head(kChunkedHead));
  feed(huge, "ffffffffffffffff\r\n", 100);
  ASSERT_TRUE(huge.body_fault());
  EXPECT_EQ(huge.body_fault()->status, 413);
}

TEST(RequestParser, AFieldThatTheParserCantHoldIs431) {
  RequestParser parser(100);
  const auto fault =
      parser.parse_head("GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(70000, 'a') + "\r\n\r\n");
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->status, 431);
}

}  // namespace
}  // namespace pagoda::net
