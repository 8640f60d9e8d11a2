// What the handlers of all routes share.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "api/http/api.h"
#include "api/http/error_table.h"
#include "api/http/stream_keeper.h"
#include "api/openai/request.h"
#include "base/result.h"
#include "service/engine_metrics.h"

namespace pagoda::http {

class ApiState {
 public:
  ApiState(ApiOptions options, telemetry::Metrics* metrics);

  void set_ready(LoadedModel model);
  void begin_drain();

  // The error that every request gets while the model loads or the server drains.
  std::optional<Error> unavailable() const;
  // The rest only once the model is loaded.
  bool loaded() const { return loaded_.load(std::memory_order_acquire); }
  service::Service& service() const { return *model_.service; }
  const LoadedModel& model() const { return model_; }
  const openai::ParseOptions& parse_options() const { return parse_; }
  int64_t created() const { return created_; }

  const ApiOptions& options() const { return options_; }
  StreamKeeper& keeper() { return keeper_; }
  // Null without metrics. Brings the engine's numbers up to date first.
  std::optional<std::string> metrics_text();

 private:
  const ApiOptions options_;
  telemetry::Metrics* const metrics_;
  std::optional<service::EngineTotals> totals_;  // with metrics
  // Written once, before loaded_ is set.
  LoadedModel model_;
  openai::ParseOptions parse_;
  int64_t created_ = 0;
  std::atomic<bool> loaded_{false}, draining_{false};
  StreamKeeper keeper_;
};

// Seconds since 1970, as the contract's `created`.
int64_t unix_seconds();

// A handler that does its work on the text pool: bodies may be megabytes long, and an I/O thread serves
// everybody. While the model is not ready it answers 503; an error of `work` becomes the answer, through
// `respond`, and success means that it has answered.
using Work = Result<void> (*)(ApiState& state, const net::HttpRequest& request,
                              const std::shared_ptr<net::ResponseWriter>& response);
net::Handler on_text_pool(std::shared_ptr<ApiState> state, Work work, ErrorResponder respond = respond_error);

void respond_json(net::ResponseWriter& response, std::string body, net::Headers headers = {});

// POST /v1/completions and /v1/chat/completions.
Result<void> handle_completion(ApiState& state, const net::HttpRequest& request,
                               const std::shared_ptr<net::ResponseWriter>& response);
Result<void> handle_chat(ApiState& state, const net::HttpRequest& request,
                         const std::shared_ptr<net::ResponseWriter>& response);
// POST /v1/responses.
Result<void> handle_responses(ApiState& state, const net::HttpRequest& request,
                              const std::shared_ptr<net::ResponseWriter>& response);
// POST /v1/messages and /v1/messages/count_tokens.
void register_messages_routes(const std::shared_ptr<ApiState>& state, net::HttpServer& server);
// POST /v1/embeddings, /rerank and /score.
void register_embedding_routes(const std::shared_ptr<ApiState>& state, net::HttpServer& server);
// POST /infill and /generate.
Result<void> handle_infill(ApiState& state, const net::HttpRequest& request,
                           const std::shared_ptr<net::ResponseWriter>& response);
Result<void> handle_generate(ApiState& state, const net::HttpRequest& request,
                             const std::shared_ptr<net::ResponseWriter>& response);
// POST /tokenize, /detokenize and /apply-template.
Result<void> handle_tokenize(ApiState& state, const net::HttpRequest& request,
                             const std::shared_ptr<net::ResponseWriter>& response);
Result<void> handle_detokenize(ApiState& state, const net::HttpRequest& request,
                               const std::shared_ptr<net::ResponseWriter>& response);
Result<void> handle_apply_template(ApiState& state, const net::HttpRequest& request,
                                   const std::shared_ptr<net::ResponseWriter>& response);
// GET /openapi.json.
void register_openapi_route(const std::shared_ptr<ApiState>& state, net::HttpServer& server);
// GET routes: models, health, version, metrics, blocks.
void register_info_routes(const std::shared_ptr<ApiState>& state, net::HttpServer& server);

}  // namespace pagoda::http
