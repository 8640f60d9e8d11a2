// What serving text and serving embeddings share.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "api/http/batch_service.h"
#include "base/result.h"
#include "cli/flags.h"
#include "net/http_server.h"

namespace pagoda::cli {

net::HttpServerOptions server_options(const ServeFlags& flags);
// For people to copy.
std::string base_url(const ServeFlags& flags, uint16_t port);
// What curl needs beside the URL: the Unix socket, if there is one.
std::string curl_option(const ServeFlags& flags);
void print_ready(const ServeFlags& flags, const std::string& url, double load_s);

// What --batch-dir asks for; null without it.
Result<std::shared_ptr<http::BatchService>> open_batches(const ServeFlags& flags,
                                                         const net::HttpServer& server);

// What drain() asks of an engine.
struct DrainedEngine {
  std::function<bool()> idle;
  std::function<void()> stop;
};
// Waits until nothing is in flight or the time is up; what is left is aborted and told so. The listener stays
// open as long: health checks see the drain, and new work gets 503 shutting_down instead of a refused
// connection.
void drain(net::HttpServer& server, const DrainedEngine& engine, std::chrono::seconds timeout);

}  // namespace pagoda::cli
