// The server's metrics under the names, labels and buckets that vLLM's dashboards expect, and the `pagoda:`
// names for what vLLM lacks. Every series but those of single HTTP routes is exposed from the start, with 0.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace pagoda::telemetry {

struct MetricsOptions {
  std::string model_name;     // label of every vllm: and pagoda: series
  std::string engine = "0";   // label `engine`
  int64_t max_model_len = 0;  // bounds the buckets of the token counts
};

// How a request ended, as the label finished_reason spells it: "stop", "length", "abort", "error".
enum class FinishedReason : uint8_t { kStop, kLength, kAbort, kError };

// One finished request. Times in seconds; a phase that was never reached is negative and not counted.
struct RequestSample {
  double e2e_latency_s = -1;     // from arrival to the end
  double queue_time_s = -1;      // from arrival to the first step
  double prefill_time_s = -1;    // from the first step to the first token
  double decode_time_s = -1;     // from the first token to the last
  double inference_time_s = -1;  // from the first step to the last token
  int64_t prompt_tokens = 0;
  int64_t generation_tokens = 0;      // of all choices
  int64_t max_generation_tokens = 0;  // of the longest choice
  int64_t params_n = 1;
  int64_t params_max_tokens = 0;
  FinishedReason finished_reason = FinishedReason::kStop;
};

// Totals since the start, as the engine keeps them. A total that is smaller than the one before is ignored.
struct EngineTotals {
  uint64_t preemptions = 0;
  uint64_t prefix_cache_queries = 0, prefix_cache_hits = 0;  // in tokens
  uint64_t queue_rejected = 0;                               // requests
  // Drafts of speculation: times that a sequence had some, tokens, and tokens that turned out to be right.
  uint64_t spec_decode_drafts = 0, spec_decode_draft_tokens = 0, spec_decode_accepted_tokens = 0;
};

struct CacheConfig {
  int64_t block_size = 0;
  int64_t num_gpu_blocks = 0;  // vLLM's word for the blocks of the pool, wherever it lies
  bool enable_prefix_caching = true;
};

// All methods are thread-safe and quick: an atomic addition or a short lock. Values that are not finite are
// dropped, since one of them would spoil a sum for good.
class Metrics {
 public:
  explicit Metrics(const MetricsOptions& options);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  void observe_request(const RequestSample& sample);
  void observe_ttft(double seconds);
  void observe_inter_token(double seconds);  // also under vLLM's old name, time_per_output_token_seconds
  void observe_step(int64_t tokens, double seconds);

  void add_prompt_tokens(uint64_t tokens);
  void add_generation_tokens(uint64_t tokens);
  void update_totals(const EngineTotals& totals);

  void set_running(int64_t requests);
  void set_waiting(int64_t requests);
  void set_kv_cache_usage(double fraction);  // 0 .. 1; under both of vLLM's names
  void set_cache_config(const CacheConfig& config);
  void set_weights_bytes(uint64_t bytes);
  void set_kv_bytes_total(uint64_t bytes);

  // `handler` is the pattern of a route, never a path as sent. Statuses are counted by class ("2xx"), as vLLM
  // does.
  void observe_http_request(std::string_view handler, std::string_view method, int status, double seconds);

  // The text exposition format, version 0.0.4, with process_* as of now.
  std::string text() const;
  static constexpr std::string_view kContentType = "text/plain; version=0.0.4; charset=utf-8";

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pagoda::telemetry
