#include "net/response_head.h"

#include <fmt/format.h>

#include <array>
#include <iterator>

#include "base/check.h"
#include "net/ascii.h"

namespace pagoda::net {

namespace {

// The session alone decides these; a second value from a handler would contradict the framing.
bool is_own_field(std::string_view name) {
  static constexpr std::array<std::string_view, 6> kOwn{
      "content-length", "transfer-encoding", "connection", "date", "server", "x-request-id"};
  for (const std::string_view own : kOwn) {
    if (iequals(name, own)) return true;
  }
  return false;
}

void append_field(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ");
  for (const char c : value) {
    const bool control = (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f;
    out.push_back(control ? ' ' : c);
  }
  out.append("\r\n");
}

}  // namespace

// A flat table, longer than a function should be.
std::string_view reason_phrase(int status) {
  switch (status) {
    case 100:
      return "Continue";
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 206:
      return "Partial Content";
    case 301:
      return "Moved Permanently";
    case 302:
      return "Found";
    case 303:
      return "See Other";
    case 304:
      return "Not Modified";
    case 307:
      return "Temporary Redirect";
    case 308:
      return "Permanent Redirect";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 406:
      return "Not Acceptable";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 410:
      return "Gone";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "";
  }
}

std::string http_date(std::time_t time) {
  // Not strftime: its names of days and months follow the locale.
  static constexpr std::array<const char*, 7> kDays{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr std::array<const char*, 12> kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::tm utc{};
  gmtime_r(&time, &utc);
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT", kDays[static_cast<size_t>(utc.tm_wday)],
                     utc.tm_mday, kMonths[static_cast<size_t>(utc.tm_mon)], utc.tm_year + 1900, utc.tm_hour,
                     utc.tm_min, utc.tm_sec);
}

std::string format_response_head(const ResponseHead& head, const Headers& headers, std::time_t now) {
  std::string out =
      fmt::format("HTTP/1.1 {} {}\r\nServer: pagoda\r\n", head.status, reason_phrase(head.status));
  append_field(out, "Date", http_date(now));
  append_field(out, "X-Request-Id", head.request_id);
  for (const auto& [name, value] : headers) {
    if (!is_own_field(name)) append_field(out, name, value);
  }
  if (head.framing == BodyFraming::kLength)
    append_field(out, "Content-Length", std::to_string(head.content_length));
  if (head.framing == BodyFraming::kChunked) append_field(out, "Transfer-Encoding", "chunked");
  if (!head.keep_alive) {
    append_field(out, "Connection", "close");
  } else if (!head.http11) {
    append_field(out, "Connection", "keep-alive");
  }
  return out.append("\r\n");
}

void append_chunk(std::string& out, std::string_view data) {
  PAGODA_CHECK(!data.empty(), "an empty chunk would end the stream");
  fmt::format_to(std::back_inserter(out), "{:x}\r\n", data.size());
  out.append(data).append("\r\n");
}

}  // namespace pagoda::net
