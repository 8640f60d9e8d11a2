#include "cli/serve_parts.h"

#include <fmt/format.h>

#include <thread>

#include "base/log.h"

namespace pagoda::cli {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

}  // namespace

net::HttpServerOptions server_options(const ServeFlags& flags) {
  net::HttpServerOptions options;
  options.host = flags.host;
  options.port = static_cast<uint16_t>(flags.port);
  options.uds = flags.uds;
  options.io_threads = flags.io_threads;
  options.max_body_bytes = static_cast<size_t>(flags.max_body_bytes);
  options.allowed_origins = flags.allowed_origins;
  return options;
}

std::string base_url(const ServeFlags& flags, uint16_t port) {
  if (!flags.uds.empty()) return "http://localhost";
  std::string host = flags.host == "0.0.0.0" || flags.host == "::" ? "localhost" : flags.host;
  if (host.find(':') != std::string::npos) host = "[" + host + "]";
  return fmt::format("http://{}:{}", host, port);
}

std::string curl_option(const ServeFlags& flags) {
  return flags.uds.empty() ? "" : fmt::format(" --unix-socket {}", flags.uds);
}

void print_ready(const ServeFlags& flags, const std::string& url, double load_s) {
  fmt::print("  ready    after {:.2f} s at {}{}\n\n", load_s, flags.uds.empty() ? url : flags.uds,
             flags.uds.empty() ? "" : " (Unix socket)");
}

Result<std::shared_ptr<http::BatchService>> open_batches(const ServeFlags& flags,
                                                         const net::HttpServer& server) {
  if (flags.batch_dir.empty()) return std::shared_ptr<http::BatchService>();
  return http::BatchService::open(flags.batch_dir, server);
}

void drain(net::HttpServer& server, const DrainedEngine& engine, std::chrono::seconds timeout) {
  const SteadyTime deadline = std::chrono::steady_clock::now() + timeout;
  const auto busy = [&] { return server.active_requests() > 0 || !engine.idle(); };
  log::info("draining: {} requests in flight, up to {} s", server.active_requests(), timeout.count());
  while (busy() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  server.begin_drain();
  if (busy()) log::warn("the drain time is over: {} requests are cut off", server.active_requests());
  engine.stop();
  // The error events of what was cut off still have to reach their sockets.
  const SteadyTime grace = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (server.active_requests() > 0 && std::chrono::steady_clock::now() < grace) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  server.stop();
}

}  // namespace pagoda::cli
