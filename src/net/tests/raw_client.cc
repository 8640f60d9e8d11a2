#include "raw_client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>

#include "net/ascii.h"

namespace pagoda::net::testing {

namespace {
// How long a test waits for what must come; passing tests never wait that long.
constexpr int kDeadlineMs = 20000;

void parse_head(std::string_view head, RawResponse& response) {
  response.status = std::stoi(std::string(head.substr(9, 3)));
  size_t at = head.find("\r\n") + 2;
  while (at < head.size() && head.substr(at, 2) != "\r\n") {
    const size_t end = head.find("\r\n", at);
    const std::string_view line = head.substr(at, end - at);
    const size_t colon = line.find(':');
    response.headers.emplace_back(line.substr(0, colon), trim(line.substr(colon + 1)));
    at = end + 2;
  }
  response.chunked = response.header("transfer-encoding") == "chunked";
}
}  // namespace

std::string RawResponse::header(std::string_view name) const {
  for (const auto& [field, value] : headers) {
    if (iequals(field, name)) return value;
  }
  return {};
}

bool RawResponse::has(std::string_view name) const {
  for (const auto& [field, value] : headers) {
    if (iequals(field, name)) return true;
  }
  return false;
}

RawClient::RawClient(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  connected_ = ::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

RawClient::RawClient(const std::string& unix_path) : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, unix_path.c_str(), std::min(unix_path.size(), sizeof(address.sun_path) - 1));
  connected_ = ::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

bool RawClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

bool RawClient::wait_readable() {
  pollfd query{.fd = fd_.get(), .events = POLLIN, .revents = 0};
  timed_out_ = ::poll(&query, 1, kDeadlineMs) == 0;
  return !timed_out_;
}

bool RawClient::fill() {
  char bytes[65536];
  if (!wait_readable()) return false;
  const ssize_t count = ::recv(fd_.get(), bytes, sizeof(bytes), 0);
  if (count <= 0) return false;
  buffer_.append(bytes, static_cast<size_t>(count));
  return true;
}

RawResponse RawClient::read_head() {
  RawResponse response;
  size_t end = 0;
  while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
    if (!fill()) return response;
  }
  parse_head(std::string_view(buffer_).substr(0, end + 4), response);
  buffer_.erase(0, end + 4);
  return response;
}

RawResponse RawClient::read_response(bool to_head) {
  RawResponse response = read_head();
  if (response.status == 0 || to_head || response.status < 200 || response.status == 204) return response;
  if (response.chunked) {
    for (;;) {
      size_t line = 0;
      while ((line = buffer_.find("\r\n")) == std::string::npos) {
        if (!fill()) return {};
      }
      const size_t size = std::stoul(buffer_.substr(0, line), nullptr, 16);
      while (buffer_.size() < line + 2 + size + 2) {
        if (!fill()) return {};
      }
      response.body += buffer_.substr(line + 2, size);
      buffer_.erase(0, line + 2 + size + 2);
      if (size == 0) return response;
    }
  }
  if (response.has("content-length")) {
    const size_t length = std::stoul(response.header("content-length"));
    while (buffer_.size() < length) {
      if (!fill()) return {};
    }
    response.body = buffer_.substr(0, length);
    buffer_.erase(0, length);
    return response;
  }
  auto rest = read_to_end();
  if (!rest) return {};
  response.body = std::move(*rest);
  return response;
}

std::string RawClient::read_some() {
  if (buffer_.empty()) fill();
  return std::exchange(buffer_, {});
}

std::optional<std::string> RawClient::read_to_end() {
  while (fill()) {
  }
  if (timed_out_) return std::nullopt;
  return std::exchange(buffer_, {});
}

bool RawClient::server_closes() {
  return read_to_end().has_value();
}

void RawClient::shutdown_write() {
  ::shutdown(fd_.get(), SHUT_WR);
}

void RawClient::reset() {
  const linger now{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  close();
}

void RawClient::shrink_receive_buffer() {
  const int bytes = 4096;
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
}

std::string make_request(std::string_view method, std::string_view path, std::string_view header_lines,
                         std::string_view body) {
  std::string request = fmt::format("{} {} HTTP/1.1\r\nHost: test\r\n{}", method, path, header_lines);
  if (!body.empty()) request += fmt::format("Content-Length: {}\r\n", body.size());
  return request.append("\r\n").append(body);
}

}  // namespace pagoda::net::testing
