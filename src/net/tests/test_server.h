// A server on a free port with a few routes, whose answers the test can hold back.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "net/http_server.h"

namespace pagoda::net::testing {

// Polls until `condition` holds; false after a deadline that only a failing test reaches.
inline bool eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

struct Observation {
  std::string handler, method;
  int status = 0;
};

// Routes: GET /health "ok"; POST /echo its body; GET /models/{id} its path; GET /stream three events;
// GET and POST /hold keep their writer for held(); GET /throw throws; POST /drop answers nothing.
class TestServer {
 public:
  explicit TestServer(HttpServerOptions options = {})
      : server_(with_port_0(std::move(options)), render, observer()) {
    add_routes();
    auto started = server_.start();
    error_ = started ? "" : started.error().message;
    port_ = started ? *started : uint16_t{0};
  }

  uint16_t port() const { return port_; }
  const std::string& error() const { return error_; }
  HttpServer& http() { return server_; }

  // The writers of the requests to /hold so far.
  std::vector<std::shared_ptr<ResponseWriter>> held() const {
    const std::lock_guard lock(mutex_);
    return held_;
  }
  std::shared_ptr<ResponseWriter> wait_held(size_t index = 0) const {
    eventually([&] { return held().size() > index; });
    return held().at(index);
  }
  std::vector<HttpRequest> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  std::vector<Observation> observations() const {
    const std::lock_guard lock(mutex_);
    return observations_;
  }
  // Drops the test server's references to the writers.
  void forget_held() {
    std::vector<std::shared_ptr<ResponseWriter>> dropped;
    const std::lock_guard lock(mutex_);
    dropped.swap(held_);
  }

  // How many requests to /hold were told that their client had gone.
  int gone() const { return gone_.load(); }

 private:
  static HttpServerOptions with_port_0(HttpServerOptions options) {
    options.port = 0;
    return options;
  }
  static std::string render(int status, std::string_view message, std::string_view) {
    return "{\"error\":{\"code\":" + std::to_string(status) + ",\"message\":\"" + std::string(message) +
           "\"}}";
  }
  RequestObserver observer() {
    return [this](std::string_view handler, std::string_view method, int status, double) {
      const std::lock_guard lock(mutex_);
      observations_.push_back({std::string(handler), std::string(method), status});
    };
  }

  void add_routes() {
    server_.route("GET", "/health", [](HttpRequest, auto response) { response->respond(200, {}, "ok"); });
    server_.route("POST", "/echo", [this](HttpRequest request, auto response) {
      std::string body = request.body;
      {
        const std::lock_guard lock(mutex_);
        requests_.push_back(std::move(request));
      }
      response->respond(200, {{"Content-Type", "text/plain"}}, std::move(body));
    });
    server_.route("GET", "/models/{id}", [](HttpRequest request, auto response) {
      response->respond(200, {}, request.path + "?" + request.query);
    });
    server_.route("GET", "/stream", [](HttpRequest, auto response) {
      response->begin_stream(200, {{"Content-Type", "text/event-stream"}});
      for (const char* event : {"data: 1\n\n", "data: 2\n\n", "data: [DONE]\n\n"}) response->write(event);
      response->end_stream();
    });
    const auto hold = [this](HttpRequest, std::shared_ptr<ResponseWriter> response) {
      response->on_close([this] { gone_.fetch_add(1); });
      const std::lock_guard lock(mutex_);
      held_.push_back(std::move(response));
    };
    server_.route("GET", "/hold", hold);
    server_.route("POST", "/hold", hold);
    server_.route("GET", "/throw", [](HttpRequest, auto) { throw std::runtime_error("meant to fail"); });
    server_.route("POST", "/drop", [](HttpRequest, auto) {});
  }

  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<ResponseWriter>> held_;
  std::vector<HttpRequest> requests_;
  std::vector<Observation> observations_;
  std::atomic<int> gone_{0};
  std::string error_;
  uint16_t port_ = 0;
  HttpServer server_;  // last: its threads use the members above
};

}  // namespace pagoda::net::testing
