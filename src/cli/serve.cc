#include "cli/serve.h"

#include <fmt/format.h>

#include <chrono>

#include "api/http/api.h"
#include "api/openai/output/output_format.h"
#include "base/resource_limits.h"
#include "cli/pooling_runtime.h"
#include "cli/runtime.h"
#include "cli/serve_parts.h"
#include "cli/served_model.h"
#include "cli/signals.h"
#include "cli/version.h"
#include "net/http_server.h"
#include "service/engine_metrics.h"
#include "service/service.h"
#include "telemetry/metrics.h"

namespace pagoda::cli {

namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

// Lines of a batch that wait for a sequence, so that none is left unused.
constexpr int kWaitingLines = 16;

void print_start_block(const ServeFlags& flags, const Runtime& runtime, const std::string& name,
                       uint16_t port, double load_s) {
  const RunPlan& plan = runtime.plan();
  const std::string url = base_url(flags, port);
  const std::string via = curl_option(flags);
  const bool chat = !plan.checkpoint.chat_template.empty() || !flags.engine.chat_template.empty();
  fmt::print("pagoda {}\n", kVersion);
  fmt::print("  model    {} ({}, {})\n", name, model::architecture_name(plan.checkpoint.config.architecture),
             plan.checkpoint.format);
  fmt::print("  weights  {} packed ({})\n", format_bytes(runtime.model().weight_bytes()),
             runtime.model().layout_summary());
  fmt::print("  kv       {} in {} blocks of {} tokens ({}): {} tokens\n",
             format_bytes(runtime.memory().kv_bytes), runtime.memory().num_blocks, kKvBlockTokens,
             dtype_name(plan.decoder.kv_dtype), runtime.memory().kv_tokens);
  fmt::print("  limits   context {}, {} sequences, {} tokens a step{}\n", plan.engine.max_model_len,
             plan.engine.max_num_seqs, plan.engine.max_num_batched_tokens,
             plan.engine.itl_target_ms > 0
                 ? fmt::format(", cut for {} ms between tokens", plan.engine.itl_target_ms)
                 : "");
  fmt::print("  machine  {}, {} threads, {}; memory limit {}, resident {}\n", cpu_model_name(), plan.threads,
             isa_name(plan.isa), format_bytes(plan.memory_limit), format_bytes(resident_bytes()));
  print_ready(flags, url, load_s);
  if (chat) {
    fmt::print(
        "  curl{} {}/v1/chat/completions -H 'Content-Type: application/json' \\\n"
        "    -d '{{\"model\": \"{}\", \"messages\": [{{\"role\": \"user\", \"content\": \"Say "
        "hello.\"}}]}}'\n",
        via, url, name);
  } else {
    fmt::print(
        "  curl{} {}/v1/completions -H 'Content-Type: application/json' \\\n"
        "    -d '{{\"model\": \"{}\", \"prompt\": \"Once upon a time\", \"max_tokens\": 32}}'\n",
        via, url, name);
  }
  std::fflush(stdout);
}

}  // namespace

Result<void> run_serve(const ServeFlags& flags) {
  if (PAGODA_TRY(wants_pooling(flags.engine))) return run_serve_pooling(flags);
  // Unknown names are noticed before a large model is loaded.
  PAGODA_TRY(openai::choose_output_format("", flags.tool_call_parser, flags.reasoning_parser));
  const SteadyTime start = std::chrono::steady_clock::now();
  SignalWatcher signals;
  const SteadyClock clock;
  RunPlan plan = PAGODA_TRY(make_run_plan(flags.engine));
  std::vector<std::string> names = flags.served_model_name;
  if (names.empty()) names.push_back(plan.checkpoint.name);

  telemetry::MetricsOptions metrics_options;
  metrics_options.model_name = names.front();
  metrics_options.max_model_len = plan.engine.max_model_len;
  telemetry::Metrics metrics(metrics_options);

  http::ApiOptions api_options;
  api_options.version = std::string(kVersion);
  api_options.strict_params = flags.strict_params;
  api_options.tool_call_parser = flags.tool_call_parser;
  api_options.reasoning_parser = flags.reasoning_parser;
  api_options.sse_ping_interval = std::chrono::seconds(flags.sse_ping_interval_s);
  http::Api api(api_options, &metrics);
  net::HttpServer server(
      server_options(flags), http::transport_error_body,
      [&metrics](std::string_view handler, std::string_view method, int status, double seconds) {
        metrics.observe_http_request(handler, method, status, seconds);
      });
  const auto batches = PAGODA_TRY(open_batches(flags, server));
  api.register_routes(server, batches);
  const uint16_t port = PAGODA_TRY(server.start());

  auto runtime = PAGODA_TRY(
      Runtime::load(std::move(plan), flags.engine.chat_template, service::observe_engine(metrics), clock));
  metrics.set_weights_bytes(runtime->model().weight_bytes());
  metrics.set_kv_bytes_total(runtime->memory().kv_bytes);
  metrics.set_cache_config(
      {kKvBlockTokens, runtime->memory().num_blocks, flags.engine.enable_prefix_caching});

  service::ServiceOptions options = service_options(*runtime, names.front(), flags.text_threads);
  PAGODA_TRY(set_fim_template(*runtime, flags.fim_template, &options));
  if (flags.seed >= 0) options.seed = static_cast<uint64_t>(flags.seed);
  options.stream_interval = flags.stream_interval;
  service::Service service(runtime->engine(), runtime->tokenizer(), runtime->take_chat_template(), options,
                           clock);
  runtime->engine().start();
  api.set_ready(loaded_model(flags.engine, *runtime, service, names));
  if (batches != nullptr) batches->start(static_cast<size_t>(service.max_num_seqs() + kWaitingLines));
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
