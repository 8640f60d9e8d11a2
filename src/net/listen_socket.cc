#include "net/listen_socket.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

#include "base/log.h"

namespace pagoda::net {

namespace {

std::string reason(int error) {
  return std::generic_category().message(error);
}

Error cannot_listen(const std::string& where, int error) {
  return make_error(ErrorKind::kIo, fmt::format("cannot listen on {}: {}", where, reason(error)));
}

std::string numeric_name(const sockaddr* address, socklen_t length) {
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  const int flags = NI_NUMERICHOST | NI_NUMERICSERV;
  if (::getnameinfo(address, length, host, sizeof(host), port, sizeof(port), flags) != 0) return "unknown";
  return address->sa_family == AF_INET6 ? fmt::format("[{}]:{}", host, port)
                                        : fmt::format("{}:{}", host, port);
}

// The port is at the same place in both kinds of address.
void set_port(sockaddr_storage& address, uint16_t port) {
  reinterpret_cast<sockaddr_in&>(address).sin_port = htons(port);
}
uint16_t port_of(const sockaddr_storage& address) {
  return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  bool operator==(const Address& other) const {
    return length == other.length && std::memcmp(&storage, &other.storage, length) == 0;
  }
};

Result<std::vector<Address>> resolve(const std::string& host, uint16_t port) {
  std::string name = host;
  if (name.size() > 2 && name.front() == '[' && name.back() == ']') name = name.substr(1, name.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int failure = name.empty() ? EAI_NONAME : ::getaddrinfo(name.c_str(), nullptr, &hints, &found);
  if (failure != 0) {
    const std::string why = failure == EAI_SYSTEM ? reason(errno) : ::gai_strerror(failure);
    return make_error(ErrorKind::kIo, fmt::format("cannot listen on \"{}\": {}", host, why), "host");
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  std::vector<Address> addresses;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_family != AF_INET && entry->ai_family != AF_INET6) continue;
    Address address;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.length = entry->ai_addrlen;
    set_port(address.storage, port);
    bool known = false;
    for (const Address& other : addresses) known = known || other == address;
    if (!known) addresses.push_back(address);
  }
  return addresses;
}

Result<ListenSocket> listen_at(const Address& address, bool ipv6_only) {
  const std::string where = numeric_name(address.get(), address.length);
  ListenSocket result;
  result.family = address.storage.ss_family;
  result.fd = UniqueFd(::socket(result.family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int fd = result.fd.get();
  if (fd < 0) return cannot_listen(where, errno);
  const int on = 1;
  // A restarted server needs its port while old connections are in TIME_WAIT.
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (result.family == AF_INET6) {
    const int only = ipv6_only ? 1 : 0;
    ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only));
  }
  if (::bind(fd, address.get(), address.length) != 0) return cannot_listen(where, errno);
  if (::listen(fd, SOMAXCONN) != 0) return cannot_listen(where, errno);
  sockaddr_storage bound{};
  socklen_t length = sizeof(bound);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &length) != 0)
    return cannot_listen(where, errno);
  result.port = port_of(bound);
  return result;
}

// Whether a server accepts on this socket file. EAGAIN: one does, and its backlog is full.
bool somebody_listens(const sockaddr_un& address) {
  const UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (probe.get() < 0) return true;
  const int rc = ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  return rc == 0 || errno == EAGAIN || errno == EINPROGRESS;
}

}  // namespace

UniqueFd::~UniqueFd() {
  if (fd_ >= 0) ::close(fd_);
}

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = other.release();
  }
  return *this;
}

int UniqueFd::release() {
  const int fd = fd_;
  fd_ = -1;
  return fd;
}

Result<std::vector<ListenSocket>> listen_tcp(const std::string& host, uint16_t port) {
  std::vector<Address> addresses = PAGODA_TRY(resolve(host, port));
  const bool several = addresses.size() > 1;
  std::vector<ListenSocket> sockets;
  for (Address& address : addresses) {
    if (!sockets.empty()) set_port(address.storage, sockets.front().port);
    auto socket = listen_at(address, several);
    if (!socket && sockets.empty()) return std::move(socket).error();
    if (!socket) {
      log::warn("{}; going on without this address of \"{}\"", socket.error().message, host);
      continue;
    }
    sockets.push_back(std::move(socket).value());
  }
  if (sockets.empty())
    return make_error(ErrorKind::kIo, fmt::format("cannot listen on \"{}\": no address", host), "host");
  return sockets;
}

Result<ListenSocket> listen_unix(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return make_error(
        ErrorKind::kIo,
        fmt::format("cannot listen on \"{}\": a Unix socket path has 1 to {} bytes, this one {}", path,
                    sizeof(address.sun_path) - 1, path.size()),
        "uds");
  }
  std::memcpy(address.sun_path, path.c_str(), path.size());
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) {
    if (!S_ISSOCK(status.st_mode)) {
      return make_error(ErrorKind::kIo, fmt::format("cannot listen on {}: it exists and is no socket", path),
                        "uds");
    }
    if (somebody_listens(address)) {
      return make_error(ErrorKind::kIo,
                        fmt::format("cannot listen on {}: another server listens there", path), "uds");
    }
    if (::unlink(path.c_str()) != 0) return cannot_listen(path, errno);
  }
  ListenSocket result;
  result.family = AF_UNIX;
  result.fd = UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int fd = result.fd.get();
  if (fd < 0) return cannot_listen(path, errno);
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return cannot_listen(path, errno);
  if (::listen(fd, SOMAXCONN) != 0) return cannot_listen(path, errno);
  return result;
}

std::string peer_name(int fd) {
  sockaddr_storage peer{};
  socklen_t length = sizeof(peer);
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) != 0) return "unknown";
  if (peer.ss_family == AF_UNIX) return "unix";
  return numeric_name(reinterpret_cast<const sockaddr*>(&peer), length);
}

}  // namespace pagoda::net
