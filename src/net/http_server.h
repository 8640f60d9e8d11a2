// HTTP/1.1 listener and sessions on Boost.Beast; one or more I/O threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "net/http_types.h"

namespace pagoda::net {

struct HttpServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8000;  // 0: any free port
  std::string uds;       // a Unix socket path instead of TCP
  int io_threads = 1;
  size_t max_body_bytes = size_t{32} << 20;         // 413 beyond
  size_t max_header_bytes = size_t{64} << 10;       // 431 beyond
  int max_connections = 4096;                       // beyond: 503 and close
  size_t max_pending_bytes = size_t{4} << 20;       // of one slow reader; beyond: the connection is closed
  std::chrono::milliseconds header_timeout{30000};  // from a request's first byte to the end of its headers
  std::chrono::milliseconds body_timeout{60000};    // between two reads of a body
  std::chrono::milliseconds idle_timeout{75000};    // without a request, or without taking output
  std::string allowed_origins;                      // CORS: comma-separated, "*", or empty for off
};

// Counters for /metrics: one call per finished request, on an I/O thread. `handler` is the route's pattern,
// or "unmatched"; `method` is a registered one, or "OTHER"; `status` is 499 if the answer was not sent in
// full.
using RequestObserver =
    std::function<void(std::string_view handler, std::string_view method, int status, double seconds)>;

class HttpServer {
 public:
  HttpServer(HttpServerOptions options, ErrorBody error_body, RequestObserver observer = {});
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Before start(). `path` is exact, or has one segment "/{name}" that matches any. HEAD is answered where
  // GET is; OPTIONS is answered by the server; another method on a known path gives 405 with Allow, an
  // unknown path 404.
  void route(std::string method, std::string path, Handler handler);

  bool has_route(std::string_view method, std::string_view path) const;
  // Hands over a request as if it had come over a connection, whether the server was started or not: the
  // handler is called by the caller, and a path without one gets 404 or 405. No limits, no metrics.
  void dispatch(HttpRequest request, std::shared_ptr<ResponseWriter> response) const;

  // Binds and starts the threads; the bound port (0 for a Unix socket). kIo naming address and reason
  // ("address in use").
  Result<uint16_t> start();
  // Closes the listener and idle connections, soon after it returns; running responses get "Connection:
  // close" and go on.
  void begin_drain();
  int active_requests() const;
  // Closes everything and joins; answers under way are cut and their on_close() callbacks called. Idempotent.
  // Not for handlers: they run on the threads that this joins. Writers may outlive the server.
  void stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pagoda::net
