// One HTTP/1 request from bytes, over Beast's parser. The Beast types stay in the .cc file: including them
// costs 40 seconds of CPU time per file.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "net/http_strict.h"
#include "net/http_types.h"

namespace pagoda::net {

struct RequestHead {
  std::string method;
  std::string target;
  Headers headers;
  bool http11 = false;
  bool keep_alive = false;
  bool has_body = false;         // a positive Content-Length or the chunked coding
  bool expect_continue = false;  // the client waits for "100 Continue"; HTTP/1.1 only
};

// For one request. Not thread-safe.
class RequestParser {
 public:
  // A longer body is a fault with status 413: by its Content-Length before any of it is read, or by the sum
  // of its chunks as their sizes arrive.
  explicit RequestParser(size_t max_body_bytes);
  ~RequestParser();
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  // `head` is a head that check_head() accepts. Afterwards head() is valid, also after a fault of status 413.
  std::optional<HttpFault> parse_head(std::string_view head);
  const RequestHead& head() const { return head_; }

  // Takes what it can of `data` and returns the number of bytes taken; bytes it leaves are to be given again
  // with more behind them, or belong to the next request once done(). Trailer fields of a chunked body are
  // checked and dropped.
  size_t feed_body(std::string_view data);
  bool done() const;
  const std::optional<HttpFault>& body_fault() const { return body_fault_; }
  // Once done().
  std::string take_body();

 private:
  struct Beast;
  std::unique_ptr<Beast> beast_;
  RequestHead head_;
  std::optional<HttpFault> body_fault_;
  bool body_begun_ = false;  // Beast has seen some of it
};

}  // namespace pagoda::net
