#include "scripted/scripted_server.h"

#include <chrono>
#include <optional>
#include <thread>

#include "api/http/api.h"
#include "api/http/batch_service.h"
#include "base/thread_pool.h"
#include "engine/engine.h"
#include "net/http_server.h"
#include "scripted/scripted_model.h"
#include "scripted/scripted_tokenizer.h"
#include "service/engine_metrics.h"
#include "service/service.h"
#include "telemetry/metrics.h"

namespace pagoda::scripted {
namespace {

constexpr const char* kModelName = "scripted";
constexpr auto kWait = std::chrono::milliseconds(5);
constexpr int kMaxSendWaits = 100;  // for the last bytes to leave
constexpr const char* kDefaultTemplate =
    "{%- for m in messages -%}{%- if m.role == 'reject' -%}{{ raise_exception('roles must alternate') }}{%- "
    "endif -%}"
    "{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|assistant|>' }}{%- endif -%}";

}  // namespace

// In the order in which they depend on each other; destroyed in reverse.
struct ScriptedServer::Parts {
  SteadyClock clock;
  std::shared_ptr<const ScriptTable> table;
  std::unique_ptr<telemetry::Metrics> metrics;
  std::unique_ptr<ScriptedModel> model;
  std::unique_ptr<ComputePool> pool;
  std::unique_ptr<engine::Engine> engine;
  std::unique_ptr<service::Service> service;
  std::unique_ptr<http::Api> api;
  std::unique_ptr<net::HttpServer> server;
  std::shared_ptr<http::BatchService> batches;  // may be null
  uint16_t port = 0;
};

ScriptedServer::ScriptedServer() : parts_(std::make_unique<Parts>()) {}

ScriptedServer::~ScriptedServer() {
  drain_and_stop(0);
}

Result<std::unique_ptr<ScriptedServer>> ScriptedServer::start(ScriptTable table,
                                                              const ScriptedServerOptions& options) {
  std::unique_ptr<ScriptedServer> result(new ScriptedServer());
  Parts& parts = *result->parts_;
  const std::string& source =
      options.chat_template.empty() ? std::string(kDefaultTemplate) : options.chat_template;
  auto chat_template = PAGODA_TRY(text::ChatTemplate::compile(source));
  parts.table = std::make_shared<const ScriptTable>(std::move(table));
  telemetry::MetricsOptions metrics_options;
  metrics_options.model_name = kModelName;
  metrics_options.max_model_len = options.max_model_len;
  parts.metrics = std::make_unique<telemetry::Metrics>(metrics_options);
  parts.model = std::make_unique<ScriptedModel>(parts.table, options.max_model_len);
  parts.pool = std::make_unique<ComputePool>(1);

  engine::EngineOptions engine_options;
  engine_options.num_blocks = options.num_blocks;
  engine_options.max_model_len = options.max_model_len;
  engine_options.max_num_seqs = options.max_num_seqs;
  engine_options.max_num_queued_reqs = options.max_num_queued_reqs;
  parts.engine = std::make_unique<engine::Engine>(
      *parts.model, KvStorage(parts.model->kv_shape(), options.num_blocks), engine_options, *parts.pool,
      parts.clock, service::observe_engine(*parts.metrics));
  service::ServiceOptions service_options;
  service_options.model_name = kModelName;
  service_options.eos = {kEos};
  service_options.text_threads = options.text_threads;
  service_options.vocab_size = parts.table->vocab_size();
  const auto tokenizer = std::make_shared<ScriptedTokenizer>(parts.table, options.add_bos, options.faults);
  if (!options.fim_template.empty()) {
    auto fim = PAGODA_TRY(text::FimTemplate::parse(*tokenizer, options.fim_template));
    service_options.fim_template = std::make_shared<const text::FimTemplate>(std::move(fim));
  }
  if (options.seed >= 0) service_options.seed = static_cast<uint64_t>(options.seed);
  service_options.stream_interval = options.stream_interval;
  parts.service = std::make_unique<service::Service>(*parts.engine, tokenizer, std::move(chat_template),
                                                     service_options, parts.clock);

  http::ApiOptions api_options{"0.0.0-scripted", options.strict_params};
  api_options.sse_ping_interval = options.sse_ping_interval;
  parts.api = std::make_unique<http::Api>(std::move(api_options), parts.metrics.get());
  net::HttpServerOptions http_options;
  http_options.port = options.port;
  http_options.max_body_bytes = options.max_body_bytes;
  parts.server = std::make_unique<net::HttpServer>(
      http_options, http::transport_error_body,
      [metrics = parts.metrics.get()](std::string_view handler, std::string_view method, int status,
                                      double seconds) {
        metrics->observe_http_request(handler, method, status, seconds);
      });
  if (!options.batch_dir.empty()) {
    parts.batches = PAGODA_TRY(http::BatchService::open(options.batch_dir, *parts.server));
  }
  parts.api->register_routes(*parts.server, parts.batches);
  parts.port = PAGODA_TRY(parts.server->start());
  parts.engine->start();
  if (!options.stay_loading) {
    http::LoadedModel loaded;
    loaded.service = parts.service.get();
    loaded.names = {kModelName, "alias"};
    loaded.template_variables = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
    loaded.max_logprobs = options.max_logprobs;
    parts.api->set_ready(std::move(loaded));
    if (parts.batches != nullptr) parts.batches->start(static_cast<size_t>(options.max_num_seqs));
  }
  return result;
}

uint16_t ScriptedServer::port() const {
  return parts_->port;
}

void ScriptedServer::drain_and_stop(double seconds) {
  if (parts_->server == nullptr || parts_->api == nullptr) return;
  parts_->api->begin_drain();
  if (parts_->batches != nullptr) parts_->batches->stop();
  parts_->engine->begin_drain();
  parts_->server->begin_drain();
  const TimePoint deadline =
      parts_->clock.now() + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  while (!(parts_->engine->idle() && parts_->server->active_requests() == 0) &&
         parts_->clock.now() < deadline) {
    std::this_thread::sleep_for(kWait);
  }
  // What is left ends with an event, which the text pool turns into an answer before the sockets close.
  parts_->engine->stop();
  parts_->service->flush();
  for (int i = 0; i < kMaxSendWaits && parts_->server->active_requests() > 0; ++i)
    std::this_thread::sleep_for(kWait);
  parts_->server->stop();
}

}  // namespace pagoda::scripted
