#include "net/http_strict.h"

#include <fmt/format.h>

#include "net/ascii.h"

namespace pagoda::net {

namespace {

using Fault = std::optional<HttpFault>;

// 19 digits always fit 64 bits; nobody sends a body of 10^19 bytes.
constexpr size_t kMaxLengthDigits = 19;
// The longest registered method has 17 characters (UPDATEREDIRECTREF).
constexpr size_t kMaxMethodLength = 32;

struct HeadFacts {
  bool http11 = false;
  int hosts = 0;
  int content_lengths = 0;
  int transfer_encodings = 0;
};

HttpFault bad(std::string message) {
  return HttpFault{400, std::move(message)};
}

// The text up to the next CRLF, which is removed too.
std::string_view take_line(std::string_view& rest) {
  const size_t end = rest.find("\r\n");
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 2);
  return line;
}

template <class Predicate>
bool all_of(std::string_view text, Predicate predicate) {
  for (const char c : text) {
    if (!predicate(c)) return false;
  }
  return true;
}

bool is_token(std::string_view text) {
  return !text.empty() && all_of(text, is_token_char);
}

Fault check_version(std::string_view version, HeadFacts& facts) {
  const bool well_formed = version.size() == 8 && version.starts_with("HTTP/") && is_digit(version[5]) &&
                           version[6] == '.' && is_digit(version[7]);
  if (!well_formed) return bad("The request line does not end in an HTTP version.");
  if (version != "HTTP/1.1" && version != "HTTP/1.0") {
    return HttpFault{505, "Only HTTP/1.1 and HTTP/1.0 are spoken here."};
  }
  facts.http11 = version == "HTTP/1.1";
  return std::nullopt;
}

Fault check_request_line(std::string_view line, HeadFacts& facts) {
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) {
    return bad("The request line is not \"METHOD target HTTP/1.1\".");
  }
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  if (!is_token(method) || method.size() > kMaxMethodLength) return bad("The request method is not a token.");
  const bool known_form = target.starts_with('/') || target.starts_with("http://") ||
                          target.starts_with("https://") || target == "*";
  if (!known_form || !all_of(target, is_visible) || target.find('#') != std::string_view::npos) {
    return bad("The request target is not a path of visible ASCII characters.");
  }
  return check_version(line.substr(last + 1), facts);
}

Fault check_content_length(std::string_view value) {
  if (value.empty() || value.size() > kMaxLengthDigits || !all_of(value, is_digit)) {
    return bad(fmt::format("Content-Length is not a decimal number of at most {} digits.", kMaxLengthDigits));
  }
  return std::nullopt;
}

Fault check_host(std::string_view value) {
  const auto allowed = [](char c) {
    return is_visible(c) && std::string_view("/?#@,\\").find(c) == std::string_view::npos;
  };
  if (!all_of(value, allowed)) return bad("The Host field is not a host and port.");
  return std::nullopt;
}

// The fields that decide how a request is framed or whether its body can be read at all.
Fault check_known_field(std::string_view name, std::string_view value, HeadFacts& facts) {
  if (iequals(name, "host")) {
    ++facts.hosts;
    return check_host(value);
  }
  if (iequals(name, "content-length")) {
    ++facts.content_lengths;
    return check_content_length(value);
  }
  if (iequals(name, "transfer-encoding")) {
    ++facts.transfer_encodings;
    if (!iequals(value, "chunked")) return bad("The only supported Transfer-Encoding is \"chunked\".");
  }
  if (iequals(name, "content-encoding") && !value.empty() && !iequals(value, "identity")) {
    return HttpFault{415, "Content-Encoding is not supported; send the body uncompressed."};
  }
  if (iequals(name, "expect") && !iequals(value, "100-continue")) {
    return HttpFault{417, "The only supported expectation is 100-continue."};
  }
  return std::nullopt;
}

Fault check_field(std::string_view line, HeadFacts& facts) {
  if (line.front() == ' ' || line.front() == '\t') return bad("Folded header lines are not allowed.");
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return bad("A header line has no colon.");
  const std::string_view name = line.substr(0, colon);
  if (!is_token(name)) return bad("A header name is empty or has characters that are not allowed.");
  return check_known_field(name, trim(line.substr(colon + 1)), facts);
}

Fault check_framing(const HeadFacts& facts) {
  if (facts.content_lengths > 1) return bad("Content-Length is given more than once.");
  if (facts.transfer_encodings > 1) return bad("Transfer-Encoding is given more than once.");
  if (facts.transfer_encodings > 0 && facts.content_lengths > 0) {
    return bad("Transfer-Encoding and Content-Length exclude each other.");
  }
  if (facts.transfer_encodings > 0 && !facts.http11) return bad("HTTP/1.0 has no Transfer-Encoding.");
  if (facts.http11 && facts.hosts == 0) return bad("The Host field is missing.");
  if (facts.hosts > 1) return bad("Host is given more than once.");
  return std::nullopt;
}

}  // namespace

HeadScanner::State HeadScanner::fail(int status, std::string message) {
  fault_ = HttpFault{status, std::move(message)};
  return State::kFault;
}

HeadScanner::State HeadScanner::scan(std::string_view data) {
  if (!fault_.message.empty()) return State::kFault;
  for (; scanned_ < data.size(); ++scanned_) {
    if (scanned_ >= max_bytes_) {
      return fail(431, fmt::format("The request head is longer than {} bytes.", max_bytes_));
    }
    const char c = data[scanned_];
    const bool after_cr = scanned_ > line_start_ && data[scanned_ - 1] == '\r';
    if (after_cr != (c == '\n')) return fail(400, "A line of the request head does not end in CR LF.");
    if (c == '\n') {
      const State state = end_line(data.substr(line_start_, scanned_ - 1 - line_start_));
      line_start_ = scanned_ + 1;
      if (state == State::kComplete) ++scanned_;
      if (state != State::kNeedMore) return state;
    } else if (c != '\r' && c != '\t' && (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)) {
      return fail(400, "The request head contains a control character.");
    } else if (!method_seen_ && c != '\r') {
      method_seen_ = c == ' ';
      if (!method_seen_ && !is_token_char(c)) return fail(400, "The request method is not a token.");
    }
  }
  return State::kNeedMore;
}

HeadScanner::State HeadScanner::end_line(std::string_view line) {
  if (lines_ == 0) {
    HeadFacts facts;
    if (Fault fault = check_request_line(line, facts)) return fail(fault->status, std::move(fault->message));
  }
  if (line.empty()) return State::kComplete;
  // The request line is a line too, hence one more.
  if (++lines_ > kMaxHeaderFields + 1) {
    return fail(431, fmt::format("The request has more than {} header fields.", kMaxHeaderFields));
  }
  return State::kNeedMore;
}

std::optional<HttpFault> check_head(std::string_view head) {
  HeadFacts facts;
  if (Fault fault = check_request_line(take_line(head), facts)) return fault;
  for (std::string_view line = take_line(head); !line.empty(); line = take_line(head)) {
    if (Fault fault = check_field(line, facts)) return fault;
  }
  return check_framing(facts);
}

}  // namespace pagoda::net
