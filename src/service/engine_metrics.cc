#include "service/engine_metrics.h"

#include <algorithm>
#include <utility>

namespace pagoda::service {
namespace {

telemetry::FinishedReason finished_reason(engine::FinishReason reason) {
  switch (reason) {
    case engine::FinishReason::kStop:
      return telemetry::FinishedReason::kStop;
    case engine::FinishReason::kLength:
      return telemetry::FinishedReason::kLength;
    case engine::FinishReason::kError:
      return telemetry::FinishedReason::kError;
    case engine::FinishReason::kNone:
    case engine::FinishReason::kAborted:
    case engine::FinishReason::kDeadline:
      break;
  }
  return telemetry::FinishedReason::kAbort;
}

// Seconds between two points, or -1 when either was never reached.
double phase_s(TimePoint from, TimePoint to) {
  if (from == TimePoint{} || to == TimePoint{}) return -1;
  return to_seconds(to - from);
}

void observe_end(const engine::RequestTimes& times, telemetry::Metrics& metrics) {
  telemetry::RequestSample sample;
  const bool timed = !times.background;  // else the times say only when others left it room
  sample.e2e_latency_s = timed ? phase_s(times.arrived, times.finished) : -1;
  sample.queue_time_s = timed ? phase_s(times.arrived, times.scheduled) : -1;
  sample.prefill_time_s = timed ? phase_s(times.scheduled, times.first_token) : -1;
  sample.decode_time_s = timed ? phase_s(times.first_token, times.finished) : -1;
  sample.inference_time_s = timed ? phase_s(times.scheduled, times.finished) : -1;
  sample.prompt_tokens = times.prompt_tokens;
  sample.generation_tokens = times.output_tokens;
  // The engine counts all choices together; without a count per choice the mean stands for the longest.
  sample.max_generation_tokens = times.output_tokens / std::max(times.n, 1);
  sample.params_n = times.n;
  sample.params_max_tokens = times.max_tokens;
  sample.finished_reason = finished_reason(times.finish);
  metrics.observe_request(sample);
  const double ttft_s = phase_s(times.arrived, times.first_token);
  if (timed && ttft_s >= 0) metrics.observe_ttft(ttft_s);
}

}  // namespace

engine::EngineObserver observe_engine(telemetry::Metrics& metrics) {
  engine::EngineObserver observer;
  observer.on_request_end = [&metrics](const engine::RequestTimes& times) { observe_end(times, metrics); };
  observer.on_inter_token = [&metrics](double seconds) { metrics.observe_inter_token(seconds); };
  observer.on_step = [&metrics](int64_t tokens, double seconds) { metrics.observe_step(tokens, seconds); };
  return observer;
}

void EngineTotals::update(const engine::EngineStats& stats) {
  const std::lock_guard lock(mutex_);
  metrics_.set_running(stats.running);
  metrics_.set_waiting(stats.waiting);
  metrics_.set_kv_cache_usage(static_cast<double>(stats.blocks_used) / std::max(stats.blocks_total, 1));
  telemetry::EngineTotals totals;
  totals.preemptions = stats.preemptions;
  totals.prefix_cache_queries = stats.prefix_queries;
  totals.prefix_cache_hits = stats.prefix_hits;
  totals.queue_rejected = stats.rejected;
  totals.spec_decode_drafts = stats.drafts;
  totals.spec_decode_draft_tokens = stats.draft_tokens;
  totals.spec_decode_accepted_tokens = stats.accepted_tokens;
  metrics_.update_totals(totals);
  // Scrapes may come in another order than their snapshots were taken.
  if (stats.prompt_tokens > prompt_tokens_) {
    const uint64_t before = std::exchange(prompt_tokens_, stats.prompt_tokens);
    metrics_.add_prompt_tokens(stats.prompt_tokens - before);
  }
  if (stats.generation_tokens > generation_tokens_) {
    const uint64_t before = std::exchange(generation_tokens_, stats.generation_tokens);
    metrics_.add_generation_tokens(stats.generation_tokens - before);
  }
}

}  // namespace pagoda::service
