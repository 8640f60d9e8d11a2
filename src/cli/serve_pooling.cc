// `pagoda serve` for embeddings.
#include <fmt/format.h>

#include <chrono>

#include "api/http/api.h"
#include "base/resource_limits.h"
#include "cli/pooling_runtime.h"
#include "cli/serve.h"
#include "cli/serve_parts.h"
#include "cli/signals.h"
#include "cli/version.h"
#include "net/http_server.h"
#include "service/embedding_service.h"
#include "service/service.h"
#include "telemetry/metrics.h"

namespace pagoda::cli {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

constexpr const char* kNoGeneration =
    "This server makes embeddings and generates no text: start a model that generates, without --runner "
    "pooling or --task embed.";

// Lines of a batch that are under way: enough for a batch of the engine.
constexpr size_t kBatchWindow = 64;

double seconds(TimePoint from, TimePoint to) {
  return std::chrono::duration<double>(to - from).count();
}

void observe(const engine::PoolingTimes& times, telemetry::Metrics& metrics) {
  telemetry::RequestSample sample;
  if (!times.background) {  // else the times say only when others left it room
    sample.e2e_latency_s = seconds(times.arrived, times.finished);
    sample.queue_time_s = seconds(times.arrived, times.started);
    sample.inference_time_s = seconds(times.started, times.finished);
  }
  sample.prompt_tokens = times.tokens;
  sample.finished_reason =
      times.cancelled ? telemetry::FinishedReason::kAbort : telemetry::FinishedReason::kStop;
  metrics.observe_request(sample);
  metrics.add_prompt_tokens(static_cast<uint64_t>(times.tokens));
}

void print_start_block(const ServeFlags& flags, const PoolingRuntime& runtime, const std::string& name,
                       uint16_t port, double load_s) {
  const PoolingPlan& plan = runtime.plan();
  const std::string url = base_url(flags, port);
  const std::string via = curl_option(flags);
  fmt::print("pagoda {}\n", kVersion);
  fmt::print("  model    {} ({}, {})\n", name, plan.architecture(), plan.format());
  fmt::print("  weights  {}\n", format_bytes(runtime.weight_bytes()));
  fmt::print("  vectors  {} pooling{}\n", model::pooling_name(plan.pooling.pooling),
             plan.pooling.normalize ? ", length 1" : "");
  fmt::print("  limits   {} tokens a text, {} a batch\n", plan.max_tokens, plan.batch_tokens);
  fmt::print("  machine  {}, {} threads, {}; resident {}\n", cpu_model_name(), plan.threads,
             isa_name(plan.isa), format_bytes(resident_bytes()));
  print_ready(flags, url, load_s);
  fmt::print(
      "  curl{} {}/v1/embeddings -H 'Content-Type: application/json' \\\n"
      "    -d '{{\"model\": \"{}\", \"input\": \"Hello.\"}}'\n",
      via, url, name);
  std::fflush(stdout);
}

}  // namespace

Result<void> run_serve_pooling(const ServeFlags& flags) {
  const SteadyTime start = std::chrono::steady_clock::now();
  SignalWatcher signals;
  const SteadyClock clock;
  PoolingPlan plan = PAGODA_TRY(make_pooling_plan(flags.engine));
  std::vector<std::string> names = flags.served_model_name;
  if (names.empty()) names.push_back(plan.model_name());

  telemetry::Metrics metrics({.model_name = names.front(), .engine = "0", .max_model_len = plan.max_tokens});
  http::ApiOptions api_options;
  api_options.version = std::string(kVersion);
  api_options.strict_params = flags.strict_params;
  http::Api api(api_options, &metrics);
  net::HttpServer server(
      server_options(flags), http::transport_error_body,
      [&metrics](std::string_view handler, std::string_view method, int status, double seconds) {
        metrics.observe_http_request(handler, method, status, seconds);
      });
  const auto batches = PAGODA_TRY(open_batches(flags, server));
  api.register_routes(server, batches);
  const uint16_t port = PAGODA_TRY(server.start());

  auto runtime = PAGODA_TRY(PoolingRuntime::load(
      std::move(plan), clock, [&metrics](const engine::PoolingTimes& times) { observe(times, metrics); }));
  metrics.set_weights_bytes(runtime->weight_bytes());
  service::ServiceOptions options;
  options.model_name = names.front();
  options.text_threads = flags.text_threads;
  options.vocab_size = runtime->plan().vocab_size();
  options.no_generation = kNoGeneration;
  service::Service service(runtime->idle_engine(), runtime->tokenizer(), std::nullopt, options, clock);
  service::EmbeddingService embeddings(
      runtime->engine(), runtime->tokenizer(), options.vocab_size,
      [&service](std::function<void()> work) { service.run_on_text_pool(std::move(work)); });
  runtime->engine().start();
  http::LoadedModel loaded;
  loaded.service = &service;
  loaded.embeddings = &embeddings;
  loaded.names = names;
  loaded.quantization = runtime->plan().format();
  api.set_ready(std::move(loaded));
  if (batches != nullptr) batches->start(kBatchWindow);
  print_start_block(flags, *runtime, names.front(), port,
                    std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());

  signals.set_interruptible(false);
  signals.wait();
  api.begin_drain();
  if (batches != nullptr) batches->stop();
  runtime->engine().begin_drain();
  drain(server, {[&] { return runtime->engine().idle(); }, [&] { runtime->engine().stop(); }},
        std::chrono::seconds(flags.shutdown_timeout_s));
  return {};
}

}  // namespace pagoda::cli
