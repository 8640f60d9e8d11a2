#include "net/response_head.h"

#include <gtest/gtest.h>

#include "net/cors.h"
#include "net/request_id.h"

namespace pagoda::net {
namespace {

TEST(ResponseHead, HasTheServersFields) {
  const std::string head = format_response_head({.status = 200, .request_id = "id-1", .content_length = 5},
                                                {{"X-A", "b"}}, 784887151);
  EXPECT_EQ(
      head,
      "HTTP/1.1 200 OK\r\nServer: pagoda\r\nDate: Tue, 15 Nov 1994 08:12:31 GMT\r\nX-Request-Id: id-1\r\n"
      "X-A: b\r\nContent-Length: 5\r\n\r\n");
}

TEST(ResponseHead, ConnectionDependsOnTheVersion) {
  const auto connection = [](bool http11, bool keep_alive) {
    const std::string head = format_response_head({.http11 = http11, .keep_alive = keep_alive}, {}, 0);
    const size_t at = head.find("Connection: ");
    return at == std::string::npos ? "" : head.substr(at + 12, head.find('\r', at) - at - 12);
  };
  EXPECT_EQ(connection(true, true), "");
  EXPECT_EQ(connection(true, false), "close");
  EXPECT_EQ(connection(false, true), "keep-alive");
  EXPECT_EQ(connection(false, false), "close");
}

TEST(ResponseHead, HandlersCantBreakTheFraming) {
  const std::string head = format_response_head({.framing = BodyFraming::kChunked},
                                                {{"content-length", "7"},
                                                 {"Transfer-Encoding", "x"},
                                                 {"X-A", "b\r\nSet-Cookie: c\x01"},
                                                 {"X-B", "\xc3\xa9"}},
                                                0);
  EXPECT_EQ(head.find("ontent-"), std::string::npos);
  EXPECT_NE(head.find("X-A: b  Set-Cookie: c \r\n"), std::string::npos);
  EXPECT_NE(head.find("X-B: \xc3\xa9\r\n"), std::string::npos);
  EXPECT_NE(head.find("Transfer-Encoding: chunked\r\n"), std::string::npos);
  EXPECT_EQ(head.find("Transfer-Encoding: x"), std::string::npos);
}

TEST(ResponseHead, Chunks) {
  std::string out;
  append_chunk(out, "abc");
  append_chunk(out, std::string(26, 'z'));
  EXPECT_EQ(out, "3\r\nabc\r\n1a\r\n" + std::string(26, 'z') + "\r\n");
}

TEST(Cors, AnswersOnlyAllowedOrigins) {
  const CorsPolicy off("");
  EXPECT_FALSE(off.enabled());
  EXPECT_TRUE(off.answer_fields("https://a").empty());
  const CorsPolicy any("*");
  EXPECT_EQ(any.answer_fields("https://a").front().second, "*");
  EXPECT_TRUE(any.answer_fields("").empty());
  const CorsPolicy two(" https://a ,https://b:1");
  EXPECT_EQ(two.answer_fields("https://b:1").front().second, "https://b:1");
  EXPECT_EQ(two.answer_fields("https://a").back(), (std::pair<std::string, std::string>("Vary", "Origin")));
  for (const char* other : {"https://b", "http://a", "https://a.evil", "null"}) {
    EXPECT_TRUE(two.answer_fields(other).empty()) << other;
  }
}

TEST(RequestIds, EchoesOnlyShortPrintableOnes) {
  EXPECT_EQ(choose_request_id("req_1-A.b/c"), "req_1-A.b/c");
  EXPECT_EQ(choose_request_id(std::string(128, 'x')), std::string(128, 'x'));
  for (const std::string& bad :
       {std::string(), std::string(129, 'x'), std::string("a b"), std::string("\xc3\xa9")}) {
    const std::string id = choose_request_id(bad);
    EXPECT_EQ(id.size(), 32U);
    EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos) << id;
    EXPECT_NE(id, choose_request_id(bad));
  }
}

}  // namespace
}  // namespace pagoda::net
