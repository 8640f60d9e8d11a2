// An HTTP client that sends exactly the bytes it is told to, over a blocking socket with deadlines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "net/http_types.h"
#include "net/listen_socket.h"

namespace pagoda::net::testing {

struct RawResponse {
  int status = 0;  // 0: no complete response came
  Headers headers;
  std::string body;
  bool chunked = false;

  std::string header(std::string_view name) const;
  bool has(std::string_view name) const;
};

class RawClient {
 public:
  explicit RawClient(uint16_t port);
  explicit RawClient(const std::string& unix_path);

  bool connected() const { return connected_; }
  // False when the server has closed its side in a way that refuses more bytes.
  bool send(std::string_view bytes);
  // The next response. `to_head`: it answers HEAD and so has no body.
  RawResponse read_response(bool to_head = false);
  // The next response's head alone; its body stays to be read by read_some().
  RawResponse read_head();
  // Some bytes, or none at the end of the connection.
  std::string read_some();
  // Everything up to the end; nullopt if the server doesn't close in time.
  std::optional<std::string> read_to_end();
  // Whether the server ends the connection in time; what it sends before is dropped.
  bool server_closes();

  void shutdown_write();
  void close() { fd_ = UniqueFd(); }
  // Closes with a reset instead of a FIN.
  void reset();
  // Makes this client's kernel buffer small, for a reader that blocks its server soon.
  void shrink_receive_buffer();

 private:
  bool fill();
  bool wait_readable();

  UniqueFd fd_;
  bool connected_ = false;
  bool timed_out_ = false;
  std::string buffer_;
};

// "METHOD path HTTP/1.1" with a Host field, further header lines ("Name: value\r\n"...) and a body of known
// length.
std::string make_request(std::string_view method, std::string_view path, std::string_view header_lines = {},
                         std::string_view body = {});

}  // namespace pagoda::net::testing
