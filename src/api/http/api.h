// The routes of the server: HTTP requests to service calls, events to answers. Everything that speaks of
// status codes, headers and server-sent events is here.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/openai/request.h"
#include "net/http_server.h"
#include "service/embedding_service.h"
#include "service/service.h"
#include "telemetry/metrics.h"

namespace pagoda::http {

class BatchService;

struct ApiOptions {
  std::string version;         // of /version
  bool strict_params = false;  // an unknown field is a 400
  // As choose_output_format() takes them; empty: from the chat template.
  std::string tool_call_parser = {}, reasoning_parser = {};
  // After so long without a token a stream gets its head and a comment, again and again; 0: never.
  std::chrono::milliseconds sse_ping_interval{0};
};

// What is known once the model is loaded.
struct LoadedModel {
  service::Service* service = nullptr;              // must outlive the listener
  service::EmbeddingService* embeddings = nullptr;  // null: the server makes no embeddings; likewise
  std::vector<std::string>
      names;  // that requests may use; answers carry the one that was asked for, or the first
  openai::SamplingDefaults defaults;  // of generation_config.json
  std::vector<std::pair<std::string, std::string>>
      template_variables;    // bos_token, eos_token, ... where the model has them
  std::string quantization;  // for /v1/models; may be empty
  int max_logprobs = 20;     // -1: no limit
};

class Api {
 public:
  // `metrics` may be null: then /metrics is not there. It must outlive the listener.
  Api(ApiOptions options, telemetry::Metrics* metrics);
  ~Api();
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;

  // Before server.start(). The handlers share the state of this object, so they may outlive it. Without
  // `batches` the routes of files and batches answer 501.
  void register_routes(net::HttpServer& server, std::shared_ptr<BatchService> batches = nullptr);

  // Until this call everything but /health/live, /version and /metrics is answered with 503 loading. Once.
  void set_ready(LoadedModel model);
  // From now on new work is answered with 503 shutting_down and /health says so; what runs goes on.
  void begin_drain();

 private:
  std::shared_ptr<class ApiState> state_;
};

// The net::ErrorBody of this server: errors of the transport in the shape that the route's API has.
std::string transport_error_body(int status, std::string_view message, std::string_view route);

}  // namespace pagoda::http
