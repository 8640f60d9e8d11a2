// Listening sockets by plain system calls, so that each failure gets a message of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace pagoda::net {

// Owns a file descriptor.
class UniqueFd {
 public:
  explicit UniqueFd(int fd = -1) : fd_(fd) {}
  ~UniqueFd();
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept;
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;

  int get() const { return fd_; }
  int release();

 private:
  int fd_;
};

struct ListenSocket {
  UniqueFd fd;
  int family = 0;     // AF_INET, AF_INET6 or AF_UNIX
  uint16_t port = 0;  // as bound; 0 for AF_UNIX
};

// One socket per address that `host` (a name, an IPv4 or an IPv6 address with or without brackets) resolves
// to; all have the same port, also when `port` is 0. The first address must succeed; others that fail are
// logged and left out (a container's "localhost" often names ::1 without having it). "::" takes IPv4 too.
// Errors: kIo with address and reason.
Result<std::vector<ListenSocket>> listen_tcp(const std::string& host, uint16_t port);

// A socket file that nobody listens on is replaced. kIo if somebody does, or if `path` is another kind of
// file.
Result<ListenSocket> listen_unix(const std::string& path);

// "127.0.0.1:51234", "[::1]:51234" or "unix" for a connected socket.
std::string peer_name(int fd);

}  // namespace pagoda::net
