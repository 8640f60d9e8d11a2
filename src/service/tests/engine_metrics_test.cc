#include "service/engine_metrics.h"

#include <gmock/gmock.h>

namespace pagoda::service {
namespace {

using ::testing::ContainsRegex;

class EngineMetricsTest : public testing::Test {
 protected:
  static telemetry::MetricsOptions options() {
    telemetry::MetricsOptions result;
    result.model_name = "m";
    result.max_model_len = 100;
    return result;
  }
  telemetry::Metrics metrics_{options()};
};

TEST_F(EngineMetricsTest, TotalsAreAddedOnce) {
  EngineTotals totals(metrics_);
  engine::EngineStats stats;
  stats.running = 3;
  stats.blocks_total = 8;
  stats.blocks_used = 2;
  stats.prompt_tokens = 10;
  stats.generation_tokens = 5;
  stats.drafts = 2;
  stats.draft_tokens = 9;
  stats.accepted_tokens = 4;
  totals.update(stats);
  totals.update(stats);
  stats.generation_tokens = 7;
  totals.update(stats);
  stats.generation_tokens = 6;  // a snapshot from before the last one
  totals.update(stats);
  const std::string text = metrics_.text();
  EXPECT_THAT(text, ContainsRegex("vllm:prompt_tokens_total\\{[^}]*\\} 10\n"));
  EXPECT_THAT(text, ContainsRegex("vllm:generation_tokens_total\\{[^}]*\\} 7\n"));
  EXPECT_THAT(text, ContainsRegex("vllm:spec_decode_num_drafts_total\\{[^}]*\\} 2\n"));
  EXPECT_THAT(text, ContainsRegex("vllm:spec_decode_num_draft_tokens_total\\{[^}]*\\} 9\n"));
  EXPECT_THAT(text, ContainsRegex("vllm:spec_decode_num_accepted_tokens_total\\{[^}]*\\} 4\n"));
  EXPECT_THAT(text, ContainsRegex("vllm:num_requests_running\\{[^}]*\\} 3\n"));
  EXPECT_THAT(text, ContainsRegex("vllm:kv_cache_usage_perc\\{[^}]*\\} 0.25\n"));
}

TEST_F(EngineMetricsTest, PhasesThatWereNotReachedAreNotCounted) {
  const engine::EngineObserver observer = observe_engine(metrics_);
  engine::RequestTimes times;
  const TimePoint start = TimePoint{} + std::chrono::seconds(100);
  times.arrived = start;
  times.finished = start + std::chrono::seconds(2);
  times.finish = engine::FinishReason::kAborted;  // while it was queued
  observer.on_request_end(times);
  times.scheduled = start + std::chrono::seconds(1);
  times.first_token = start + std::chrono::milliseconds(1500);
  times.output_tokens = 4;
  times.finish = engine::FinishReason::kLength;
  observer.on_request_end(times);
  const std::string text = metrics_.text();
  EXPECT_THAT(text, ContainsRegex("vllm:e2e_request_latency_seconds_count\\{[^}]*\\} 2\n"));
  EXPECT_THAT(text, ContainsRegex("vllm:time_to_first_token_seconds_count\\{[^}]*\\} 1\n"));
  EXPECT_THAT(text, ContainsRegex("vllm:time_to_first_token_seconds_sum\\{[^}]*\\} 1.5\n"));
  EXPECT_THAT(text, ContainsRegex("finished_reason=\"abort\"[^}]*\\} 1\n"));
  EXPECT_THAT(text, ContainsRegex("finished_reason=\"length\"[^}]*\\} 1\n"));
}

}  // namespace
}  // namespace pagoda::service
