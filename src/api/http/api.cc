#include "api/http/api.h"

#include <chrono>
#include <exception>
#include <utility>

#include "api/http/api_state.h"
#include "api/http/stored_routes.h"
#include "api/http/template_setup.h"
#include "base/check.h"
#include "base/log.h"

namespace pagoda::http {
namespace {

void run_work(ApiState& state, const net::HttpRequest& request,
              const std::shared_ptr<net::ResponseWriter>& response, Work work, ErrorResponder respond) {
  Result<void> done;
  try {
    done = work(state, request, response);
  } catch (const std::exception& failure) {
    done = make_error(ErrorKind::kInternal, "The request failed because of a bug in the server.");
    log::error("{} {} failed: {}", request.method, request.path, failure.what());
  }
  if (!done) respond(*response, done.error());
}

}  // namespace

ApiState::ApiState(ApiOptions options, telemetry::Metrics* metrics)
    : options_(std::move(options)), metrics_(metrics), keeper_(options_.sse_ping_interval) {
  if (metrics_ != nullptr) totals_.emplace(*metrics_);
}

void ApiState::set_ready(LoadedModel model) {
  PAGODA_CHECK(!loaded(), "set_ready() is called once");
  PAGODA_CHECK(model.service != nullptr && !model.names.empty(), "got {} names", model.names.size());
  model_ = std::move(model);
  created_ = unix_seconds();
  parse_.model_names = model_.names;
  parse_.defaults = model_.defaults;
  parse_.vocab_size = model_.service->vocab_size();
  parse_.max_n = model_.service->max_num_seqs();
  parse_.max_logprobs = model_.max_logprobs;
  parse_.strict = options_.strict_params;
  read_chat_template(*model_.service, options_, &parse_);
  parse_.template_variables = model_.template_variables;
  loaded_.store(true, std::memory_order_release);
}

void ApiState::begin_drain() {
  draining_.store(true);
}

std::optional<Error> ApiState::unavailable() const {
  if (draining_.load()) return make_error(ErrorKind::kShuttingDown, "The server is shutting down.");
  if (!loaded()) return make_error(ErrorKind::kLoading, "The model is still being loaded.");
  return std::nullopt;
}

std::optional<std::string> ApiState::metrics_text() {
  if (metrics_ == nullptr) return std::nullopt;
  if (loaded()) totals_->update(service().stats());
  if (loaded() && model_.embeddings != nullptr) {
    const engine::PoolingStats stats = model_.embeddings->stats();
    metrics_->set_running(stats.running);
    metrics_->set_waiting(stats.waiting);
  }
  return metrics_->text();
}

int64_t unix_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

net::Handler on_text_pool(std::shared_ptr<ApiState> state, Work work, ErrorResponder respond) {
  return [state = std::move(state), work, respond](net::HttpRequest request,
                                                   std::shared_ptr<net::ResponseWriter> response) {
    if (const auto error = state->unavailable()) return respond(*response, *error);
    // Shared, as std::function wants to be copyable and the body is large.
    auto shared = std::make_shared<const net::HttpRequest>(std::move(request));
    state->service().run_on_text_pool([state, shared = std::move(shared), response = std::move(response),
                                       work,
                                       respond] { run_work(*state, *shared, response, work, respond); });
  };
}

void respond_json(net::ResponseWriter& response, std::string body, net::Headers headers) {
  headers.emplace_back("Content-Type", "application/json");
  response.respond(200, std::move(headers), std::move(body));
}

Api::Api(ApiOptions options, telemetry::Metrics* metrics)
    : state_(std::make_shared<ApiState>(std::move(options), metrics)) {}
Api::~Api() = default;

void Api::register_routes(net::HttpServer& server, std::shared_ptr<BatchService> batches) {
  server.route("POST", "/v1/completions", on_text_pool(state_, handle_completion));
  server.route("POST", "/v1/chat/completions", on_text_pool(state_, handle_chat));
  server.route("POST", "/v1/responses", on_text_pool(state_, handle_responses));
  register_messages_routes(state_, server);
  register_embedding_routes(state_, server);
  server.route("POST", "/infill", on_text_pool(state_, handle_infill));
  server.route("POST", "/generate", on_text_pool(state_, handle_generate));
  server.route("POST", "/tokenize", on_text_pool(state_, handle_tokenize));
  server.route("POST", "/detokenize", on_text_pool(state_, handle_detokenize));
  server.route("POST", "/apply-template", on_text_pool(state_, handle_apply_template));
  register_file_routes(state_, batches, server);
  register_batch_routes(state_, batches, server);
  register_openapi_route(state_, server);
  register_info_routes(state_, server);
}

void Api::set_ready(LoadedModel model) {
  state_->set_ready(std::move(model));
}
void Api::begin_drain() {
  state_->begin_drain();
}

}  // namespace pagoda::http
