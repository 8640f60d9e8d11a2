#include "cli/metrics_hooks.h"

namespace pagoda::cli {
namespace {

telemetry::FinishedReason finished_reason(engine::FinishReason reason) {
  switch (reason) {
    case engine::FinishReason::kStop:
      return telemetry::FinishedReason::kStop;
    case engine::FinishReason::kLength:
      return telemetry::FinishedReason::kLength;
    case engine::FinishReason::kAborted:
    case engine::FinishReason::kDeadline:
      return telemetry::FinishedReason::kAbort;
    case engine::FinishReason::kNone:
    case engine::FinishReason::kError:
      break;
  }
  return telemetry::FinishedReason::kError;
}

// A phase that was not reached has a time point of 0 and is reported as negative.
double span_s(TimePoint from, TimePoint to) {
  return from == TimePoint{} || to == TimePoint{} ? -1.0 : to_seconds(to - from);
}

void observe_request(const engine::RequestTimes& times, telemetry::Metrics& metrics) {
  telemetry::RequestSample sample;
  sample.e2e_latency_s = span_s(times.arrived, times.finished);
  sample.queue_time_s = span_s(times.arrived, times.scheduled);
  sample.prefill_time_s = span_s(times.scheduled, times.first_token);
  sample.decode_time_s = span_s(times.first_token, times.finished);
  sample.inference_time_s = span_s(times.scheduled, times.finished);
  sample.prompt_tokens = times.prompt_tokens;
  sample.generation_tokens = times.output_tokens;
  sample.max_generation_tokens = times.max_tokens;
  sample.params_n = times.n;
  sample.params_max_tokens = times.max_tokens;
  sample.finished_reason = finished_reason(times.finish);
  metrics.observe_request(sample);
  if (const double ttft = span_s(times.arrived, times.first_token); ttft >= 0) metrics.observe_ttft(ttft);
  metrics.add_prompt_tokens(static_cast<uint64_t>(times.prompt_tokens));
  metrics.add_generation_tokens(static_cast<uint64_t>(times.output_tokens));
}

}  // namespace

engine::EngineObserver metrics_observer(telemetry::Metrics& metrics) {
  engine::EngineObserver observer;
  observer.on_request_end = [&metrics](const engine::RequestTimes& times) {
    observe_request(times, metrics);
  };
  observer.on_inter_token = [&metrics](double seconds) { metrics.observe_inter_token(seconds); };
  observer.on_step = [&metrics](int64_t tokens, double seconds) { metrics.observe_step(tokens, seconds); };
  return observer;
}

void publish_stats(const engine::EngineStats& stats, telemetry::Metrics& metrics) {
  metrics.set_running(stats.running);
  metrics.set_waiting(stats.waiting);
  metrics.set_kv_cache_usage(
      stats.blocks_total > 0 ? static_cast<double>(stats.blocks_used) / stats.blocks_total : 0);
  metrics.update_totals({stats.preemptions, stats.prefix_queries, stats.prefix_hits, stats.rejected});
}

}  // namespace pagoda::cli
