// Response heads and chunks as bytes (RFC 9112).
#pragma once

#include <ctime>
#include <string>
#include <string_view>

#include "net/http_types.h"

namespace pagoda::net {

enum class BodyFraming {
  kNone,        // 1xx, 204 and 304 have no body and no field that announces one
  kLength,      // Content-Length
  kChunked,     // HTTP/1.1 streams
  kUntilClose,  // HTTP/1.0 streams
};

struct ResponseHead {
  int status = 200;
  std::string_view request_id{};
  BodyFraming framing = BodyFraming::kLength;
  size_t content_length = 0;  // kLength
  bool http11 = true;         // of the request: decides what Connection has to say
  bool keep_alive = true;
};

// Status line, the server's own fields (Server, Date, X-Request-Id, framing, Connection), then `headers`
// without any of those names, and the empty line. CR, LF and other control characters in a value become
// spaces.
std::string format_response_head(const ResponseHead& head, const Headers& headers, std::time_t now);

// "Tue, 15 Nov 1994 08:12:31 GMT".
std::string http_date(std::time_t time);
// Empty for a status that has no registered phrase.
std::string_view reason_phrase(int status);
// Appends data, which must not be empty, as one chunk.
void append_chunk(std::string& out, std::string_view data);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace pagoda::net
