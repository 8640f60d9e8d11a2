// What handlers see of HTTP: no Boost types.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/executor.h"

namespace pagoda::net {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // without the query, as sent (no decoding: routes match exact paths)
  std::string query;   // after '?', may be empty
  Headers headers;
  std::string body;
  std::string remote;       // "127.0.0.1:51234", or "unix"
  std::string request_id;   // the client's X-Request-Id if it is short and printable, else made here
  bool background = false;  // a line of a batch: runs when nothing else does; never set by a client

  // First header of that name, compared without case; empty when absent.
  std::string_view header(std::string_view name) const;
};

// The answer to one request. All methods are thread-safe and never block; calls after the client has gone are
// no-ops. Exactly one of respond() and begin_stream() is called; dropping the last reference before the
// answer is complete gives 500, or cuts a stream. The session adds X-Request-Id, Date, Server, the framing
// and Connection (a handler's "Connection: close" counts, its other values of these are ignored).
class ResponseWriter {
 public:
  virtual ~ResponseWriter() = default;
  virtual void respond(int status, Headers headers, std::string body) = 0;
  // Chunked (HTTP/1.1) or until close (1.0).
  virtual void begin_stream(int status, Headers headers) = 0;
  virtual void write(std::string data) = 0;  // one or more whole events; flushed at once
  virtual void end_stream() = 0;
  // True once the client's connection is gone.
  virtual bool closed() const = 0;
  // Bytes given to write() that the socket has not taken yet (a client that reads slowly).
  virtual size_t pending_bytes() const = 0;
  // Called once, on an I/O thread, if the client goes away before the answer is complete (at once and by the
  // caller if it already has). A second callback replaces the first.
  virtual void on_close(std::function<void()> callback) = 0;
  // Runs quick work, such as making the next event of a stream, on an I/O thread, which then sends at once
  // what was written. Takes none once the client has gone or the server has stopped. Doesn't keep the answer
  // from being dropped. May be null.
  virtual std::shared_ptr<Executor> executor() = 0;
};

using Handler = std::function<void(HttpRequest request, std::shared_ptr<ResponseWriter> response)>;

// Renders an error of the transport itself (400, 404, 405, 408, 413, 415, 417, 431, 500, 503, 505) as a JSON
// body. `route`: the pattern of the route that was asked for, "unmatched" without one; routes of other APIs
// have errors of other shapes.
using ErrorBody = std::function<std::string(int status, std::string_view message, std::string_view route)>;

}  // namespace pagoda::net
