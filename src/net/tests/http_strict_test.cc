#include "net/http_strict.h"

#include <gtest/gtest.h>

#include <string>

namespace pagoda::net {
namespace {

int status_of(const std::string& head) {
  const auto fault = check_head(head);
  return fault ? fault->status : 0;
}
int with_field(const std::string& field) {
  return status_of("POST /x HTTP/1.1\r\nHost: h\r\n" + field + "\r\n\r\n");
}

TEST(CheckHead, AcceptsWhatClientsSend) {
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nHost: [::1]:8000\r\n\r\n"), 0);
  EXPECT_EQ(status_of("GET /a?b=%20&c HTTP/1.0\r\n\r\n"), 0);
  EXPECT_EQ(status_of("OPTIONS * HTTP/1.1\r\nhOsT:\r\n\r\n"), 0);
  EXPECT_EQ(with_field("Content-Length: \t 0 "), 0);
  EXPECT_EQ(with_field("transfer-encoding: Chunked"), 0);
  EXPECT_EQ(with_field("X-Name: caf\xc3\xa9 \"a, b\"; c:d"), 0);
  EXPECT_EQ(with_field("Expect: 100-Continue"), 0);
  EXPECT_EQ(with_field("Content-Encoding: identity"), 0);
}

TEST(CheckHead, NamesTheStatus) {
  EXPECT_EQ(with_field("Content-Encoding: br"), 415);
  EXPECT_EQ(with_field("Expect: x"), 417);
  EXPECT_EQ(status_of("GET / HTTP/1.2\r\nHost: h\r\n\r\n"), 505);
  EXPECT_EQ(status_of("GET / HTTP/11\r\nHost: h\r\n\r\n"), 400);
}

TEST(CheckHead, ContentLengthIsDigitsThatFit) {
  EXPECT_EQ(with_field("Content-Length: 9999999999999999999"), 0);
  for (const char* bad : {"99999999999999999999", "1.0", "1,1", "1 1", "1e3", "\xd9\xa1", ""}) {
    EXPECT_EQ(with_field(std::string("Content-Length: ") + bad), 400) << bad;
  }
}

TEST(CheckHead, FieldNamesAreTokens) {
  for (const char* bad : {"X : y", ": y", "X y: z", "X(: y", "\"X\": y", "X\xc3\xa9: y", "no colon"}) {
    EXPECT_EQ(with_field(bad), 400) << bad;
  }
}

HeadScanner::State scan_by(size_t step, const std::string& bytes, HeadScanner& scanner) {
  for (size_t end = std::min(step, bytes.size());; end = std::min(end + step, bytes.size())) {
    const auto state = scanner.scan(std::string_view(bytes).substr(0, end));
    if (state != HeadScanner::State::kNeedMore || end == bytes.size()) return state;
  }
}

TEST(HeadScanner, FindsTheEndInAnyPieces) {
  const std::string head = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
  for (size_t step = 1; step <= head.size() + 4; ++step) {
    HeadScanner scanner(1000);
    EXPECT_EQ(scan_by(step, head + "body", scanner), HeadScanner::State::kComplete);
    EXPECT_EQ(scanner.head_size(), head.size());
  }
}

TEST(HeadScanner, SaysTheSameInAnyPieces) {
  for (const std::string& bad :
       {std::string("GET / HTTP/1.1\nHost: h\r\n\r\n"), std::string("GET / HTTP/1.1\r\rHost: h"),
        std::string("GET / HTTP/1.1\r\nA: \x01"), std::string("\r\n\r\n"), std::string("{\"a\": 1}"),
        std::string("GET\r\n")}) {
    for (size_t step = 1; step <= bad.size(); ++step) {
      HeadScanner scanner(1000);
      EXPECT_EQ(scan_by(step, bad, scanner), HeadScanner::State::kFault) << bad << " by " << step;
      EXPECT_EQ(scanner.fault().status, 400);
    }
  }
}

TEST(HeadScanner, LimitsBytesExactly) {
  const std::string head = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
  HeadScanner fits(head.size());
  EXPECT_EQ(fits.scan(head), HeadScanner::State::kComplete);
  HeadScanner too_small(head.size() - 1);
  EXPECT_EQ(too_small.scan(head), HeadScanner::State::kFault);
  EXPECT_EQ(too_small.fault().status, 431);
}

TEST(HeadScanner, LimitsFieldsExactly) {
  const auto head_with = [](int fields) {
    std::string head = "GET / HTTP/1.1\r\n";
    for (int i = 0; i < fields; ++i) head += "a: b\r\n";
    return head + "\r\n";
  };
  HeadScanner fits(100000);
  EXPECT_EQ(fits.scan(head_with(kMaxHeaderFields)), HeadScanner::State::kComplete);
  HeadScanner too_many(100000);
  EXPECT_EQ(too_many.scan(head_with(kMaxHeaderFields + 1)), HeadScanner::State::kFault);
  EXPECT_EQ(too_many.fault().status, 431);
}

}  // namespace
}  // namespace pagoda::net
