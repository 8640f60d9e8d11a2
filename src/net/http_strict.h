// What a request head must look like before any parser sees it. Lenient readers of HTTP disagree with the
// proxies in front of them about where a request ends, which is how requests are smuggled; so whatever RFC
// 9112 lets a server refuse is refused here. No sockets and no Beast types.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace pagoda::net {

// Why a request is refused by the transport: an HTTP status and one sentence for the error body.
struct HttpFault {
  int status = 400;
  std::string message;
};

// More fields than any client or chain of proxies sends; each costs memory and a look-up.
inline constexpr int kMaxHeaderFields = 256;

// Finds the end of a request head in bytes that arrive piece by piece, each byte looked at once. It finds
// what makes waiting for that end pointless too: a bare CR or LF, a control character (a TLS hello has some),
// too many bytes.
class HeadScanner {
 public:
  enum class State { kNeedMore, kComplete, kFault };

  explicit HeadScanner(size_t max_bytes) : max_bytes_(max_bytes) {}

  // `data` is all that has arrived since the head began; it only grows from call to call.
  State scan(std::string_view data);
  // kComplete: the length of the head with its empty line.
  size_t head_size() const { return scanned_; }
  // kFault: 400 or 431.
  const HttpFault& fault() const { return fault_; }
  // Begins with the next request.
  void reset() { *this = HeadScanner(max_bytes_); }

 private:
  State end_line(std::string_view line);
  State fail(int status, std::string message);

  size_t max_bytes_;
  size_t scanned_ = 0;
  size_t line_start_ = 0;
  int lines_ = 0;
  bool method_seen_ = false;
  HttpFault fault_;
};

// Checks a whole head as HeadScanner delimits it: request line, names and values of fields, exactly one Host
// in HTTP/1.1, at most one Content-Length or Transfer-Encoding and never both. Refuses with 400, except for
// another HTTP version (505), a coded body (415) and an expectation other than 100-continue (417).
std::optional<HttpFault> check_head(std::string_view head);

}  // namespace pagoda::net
