#include "telemetry/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "telemetry/buckets.h"
#include "telemetry/process_stats.h"

namespace pagoda::telemetry {
namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Labels;

// Routes are few; the bound only keeps a caller that passes paths as sent from growing the registry without
// end.
constexpr size_t kMaxHandlers = 128;

constexpr std::array<std::string_view, 4> kFinishedReasons = {"stop", "length", "abort", "error"};

std::string_view known_method(std::string_view method) {
  constexpr std::array<std::string_view, 7> kMethods = {"GET",  "POST",    "PUT",  "DELETE",
                                                        "HEAD", "OPTIONS", "PATCH"};
  const auto found = std::find(kMethods.begin(), kMethods.end(), method);
  return found == kMethods.end() ? std::string_view("OTHER") : *found;
}

std::string status_class(int status) {
  return status >= 100 && status < 600 ? std::to_string(status / 100) + "xx" : std::string("other");
}

void observe(Histogram& histogram, double value) {
  if (std::isfinite(value) && value >= 0) histogram.Observe(value);
}

void set(Gauge& gauge, double value) {
  if (std::isfinite(value)) gauge.Set(value);
}

// Counts up to a total kept elsewhere. Callers hold a lock.
class MirroredCounter {
 public:
  explicit MirroredCounter(Counter& counter) : counter_(counter) {}
  void raise_to(uint64_t total) {
    if (total <= last_) return;
    counter_.Increment(static_cast<double>(total - last_));
    last_ = total;
  }

 private:
  Counter& counter_;
  uint64_t last_ = 0;
};

void append_process(std::vector<prometheus::MetricFamily>& families, std::string name,
                    prometheus::MetricType type, std::string help, std::optional<double> value) {
  if (!value) return;
  prometheus::ClientMetric metric;
  metric.counter.value = *value;
  metric.gauge.value = *value;
  families.push_back({"process_" + std::move(name), std::move(help), type, {metric}});
}

void append_process_stats(std::vector<prometheus::MetricFamily>& families) {
  constexpr auto kCounter = prometheus::MetricType::Counter;
  constexpr auto kGauge = prometheus::MetricType::Gauge;
  const ProcessStats stats = read_process_stats();
  append_process(families, "cpu_seconds_total", kCounter, "User and system time, in seconds.",
                 stats.cpu_seconds);
  append_process(families, "resident_memory_bytes", kGauge, "Resident memory, in bytes.",
                 stats.resident_bytes);
  append_process(families, "virtual_memory_bytes", kGauge, "Virtual memory, in bytes.", stats.virtual_bytes);
  append_process(families, "open_fds", kGauge, "Open file descriptors.", stats.open_fds);
  append_process(families, "max_fds", kGauge, "Limit of open file descriptors.", stats.max_fds);
  append_process(families, "start_time_seconds", kGauge,
                 "Start of the process, in seconds since the Unix epoch.", stats.start_time_seconds);
}

}  // namespace

class Metrics::Impl {
 private:
  // Declared before the references that are bound from them.
  prometheus::Registry registry_;
  const Labels labels_;
  const std::vector<double> token_bounds_;

 public:
  explicit Impl(const MetricsOptions& options)
      : labels_{{"engine", options.engine}, {"model_name", options.model_name}},
        token_bounds_(one_two_five_buckets(options.max_model_len)) {
    auto& success = prometheus::BuildCounter()
                        .Name("vllm:request_success_total")
                        .Help("Finished requests by reason.")
                        .Register(registry_);
    for (size_t i = 0; i < kFinishedReasons.size(); ++i) {
      Labels labels = labels_;
      labels.emplace("finished_reason", kFinishedReasons[i]);
      success_[i] = &success.Add(labels);
    }
  }

  Counter& counter(const std::string& name, const std::string& help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry_).Add(labels_);
  }
  Gauge& gauge(const std::string& name, const std::string& help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry_).Add(labels_);
  }
  Histogram& histogram(const std::string& name, const std::string& help, const std::vector<double>& bounds) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry_).Add(labels_, bounds);
  }

  void set_cache_config(const CacheConfig& config) {
    Labels labels = labels_;
    labels.emplace("block_size", std::to_string(config.block_size));
    labels.emplace("num_gpu_blocks", std::to_string(config.num_gpu_blocks));
    // Python's spelling, which vLLM exposes.
    labels.emplace("enable_prefix_caching", config.enable_prefix_caching ? "True" : "False");
    const std::lock_guard lock(mutex_);
    if (cache_config_ != nullptr) cache_configs_.Remove(cache_config_);
    cache_config_ = &cache_configs_.Add(labels);
    cache_config_->Set(1);
  }

  void update_totals(const EngineTotals& totals) {
    const std::lock_guard lock(mutex_);
    preemptions_.raise_to(totals.preemptions);
    prefix_queries_.raise_to(totals.prefix_cache_queries);
    prefix_hits_.raise_to(totals.prefix_cache_hits);
    queue_rejected_.raise_to(totals.queue_rejected);
    drafts_.raise_to(totals.spec_decode_drafts);
    draft_tokens_.raise_to(totals.spec_decode_draft_tokens);
    accepted_tokens_.raise_to(totals.spec_decode_accepted_tokens);
  }

  void observe_http_request(std::string_view handler, std::string_view method, int status, double seconds) {
    Labels labels{{"handler", bounded_handler(handler)}, {"method", std::string(known_method(method))}};
    observe(http_durations_.Add(labels, http_bounds_), seconds);
    labels.emplace("status", status_class(status));
    http_requests_.Add(labels).Increment();
  }

  std::string text() const {
    std::vector<prometheus::MetricFamily> families = registry_.Collect();
    append_process_stats(families);
    return prometheus::TextSerializer().Serialize(families);
  }

  Histogram& e2e = histogram("vllm:e2e_request_latency_seconds",
                             "Time from the arrival of a request to its end, in seconds.", latency_buckets());
  Histogram& ttft =
      histogram("vllm:time_to_first_token_seconds",
                "Time from the arrival of a request to its first token, in seconds.", ttft_buckets());
  Histogram& inter_token =
      histogram("vllm:inter_token_latency_seconds", "Time between two tokens of a choice, in seconds.",
                inter_token_buckets());
  Histogram& per_output_token =
      histogram("vllm:time_per_output_token_seconds",
                "Older name of vllm:inter_token_latency_seconds, with the same data.", inter_token_buckets());
  Histogram& queue_time = histogram("vllm:request_queue_time_seconds",
                                    "Time a request waited to be scheduled, in seconds.", latency_buckets());
  Histogram& prefill_time =
      histogram("vllm:request_prefill_time_seconds",
                "Time from being scheduled to the first token, in seconds.", latency_buckets());
  Histogram& decode_time = histogram("vllm:request_decode_time_seconds",
                                     "Time from the first token to the last, in seconds.", latency_buckets());
  Histogram& inference_time =
      histogram("vllm:request_inference_time_seconds",
                "Time from being scheduled to the last token, in seconds.", latency_buckets());
  Histogram& request_prompt_tokens =
      histogram("vllm:request_prompt_tokens", "Prompt tokens of a request.", token_bounds_);
  Histogram& request_generation_tokens =
      histogram("vllm:request_generation_tokens", "Generated tokens of a request.", token_bounds_);
  Histogram& request_max_generation_tokens =
      histogram("vllm:request_max_num_generation_tokens",
                "Generated tokens of the longest choice of a request.", token_bounds_);
  Histogram& params_n =
      histogram("vllm:request_params_n", "Choices that a request asked for (n).", choice_buckets());
  Histogram& params_max_tokens =
      histogram("vllm:request_params_max_tokens", "The max_tokens of a request.", token_bounds_);
  Histogram& iteration_tokens =
      histogram("vllm:iteration_tokens_total", "Tokens in one step of the engine.", step_token_buckets());
  Histogram& step_seconds = histogram(
      "pagoda:step_seconds", "Duration of one step of the engine, in seconds.", step_seconds_buckets());

  Counter& prompt_tokens = counter("vllm:prompt_tokens_total", "Prompt tokens processed.");
  Counter& generation_tokens = counter("vllm:generation_tokens_total", "Tokens generated.");
  Counter& success(FinishedReason reason) { return *success_[static_cast<size_t>(reason)]; }

  Gauge& running = gauge("vllm:num_requests_running", "Requests in the running batch.");
  Gauge& waiting = gauge("vllm:num_requests_waiting", "Requests waiting to be scheduled.");
  Gauge& kv_usage = gauge("vllm:kv_cache_usage_perc", "Share of the KV cache in use; 1 means full.");
  Gauge& gpu_usage =
      gauge("vllm:gpu_cache_usage_perc", "Older name of vllm:kv_cache_usage_perc, with the same data.");
  Gauge& weights_bytes = gauge("pagoda:weights_bytes", "Memory of the packed weights, in bytes.");
  Gauge& kv_bytes_total = gauge("pagoda:kv_bytes_total", "Memory of the KV cache, in bytes.");

 private:
  std::string bounded_handler(std::string_view handler) {
    const std::lock_guard lock(mutex_);
    if (handlers_.find(handler) == handlers_.end()) {
      if (handlers_.size() >= kMaxHandlers) return "other";
      handlers_.emplace(handler);
    }
    return std::string(handler);
  }

  std::mutex mutex_;  // what follows; the series above are thread-safe by themselves
  std::array<Counter*, kFinishedReasons.size()> success_{};
  MirroredCounter preemptions_{counter("vllm:num_preemptions_total", "Times that a request was preempted.")};
  MirroredCounter prefix_queries_{
      counter("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.")};
  MirroredCounter prefix_hits_{
      counter("vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache.")};
  MirroredCounter queue_rejected_{
      counter("pagoda:queue_rejected_total", "Requests refused because the queue was full.")};
  MirroredCounter drafts_{
      counter("vllm:spec_decode_num_drafts_total", "Times that a sequence had drafts in a step.")};
  MirroredCounter draft_tokens_{
      counter("vllm:spec_decode_num_draft_tokens_total", "Tokens that were drafted.")};
  MirroredCounter accepted_tokens_{
      counter("vllm:spec_decode_num_accepted_tokens_total", "Drafted tokens that turned out to be right.")};
  prometheus::Family<Gauge>& cache_configs_ =
      prometheus::BuildGauge()
          .Name("vllm:cache_config_info")
          .Help("The configuration of the KV cache, in labels; always 1.")
          .Register(registry_);
  Gauge* cache_config_ = nullptr;
  prometheus::Family<Counter>& http_requests_ =
      prometheus::BuildCounter()
          .Name("http_requests_total")
          .Help("HTTP requests by route, method and class of status.")
          .Register(registry_);
  prometheus::Family<Histogram>& http_durations_ =
      prometheus::BuildHistogram()
          .Name("http_request_duration_seconds")
          .Help("Time from the request line to the end of the response, in seconds.")
          .Register(registry_);
  const std::vector<double> http_bounds_ = http_buckets();
  std::set<std::string, std::less<>> handlers_;
};

Metrics::Metrics(const MetricsOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Metrics::~Metrics() = default;

void Metrics::observe_request(const RequestSample& sample) {
  observe(impl_->e2e, sample.e2e_latency_s);
  observe(impl_->queue_time, sample.queue_time_s);
  observe(impl_->prefill_time, sample.prefill_time_s);
  observe(impl_->decode_time, sample.decode_time_s);
  observe(impl_->inference_time, sample.inference_time_s);
  observe(impl_->request_prompt_tokens, static_cast<double>(sample.prompt_tokens));
  observe(impl_->request_generation_tokens, static_cast<double>(sample.generation_tokens));
  observe(impl_->request_max_generation_tokens, static_cast<double>(sample.max_generation_tokens));
  observe(impl_->params_n, static_cast<double>(sample.params_n));
  observe(impl_->params_max_tokens, static_cast<double>(sample.params_max_tokens));
  impl_->success(sample.finished_reason).Increment();
}

void Metrics::observe_ttft(double seconds) {
  observe(impl_->ttft, seconds);
}

void Metrics::observe_inter_token(double seconds) {
  observe(impl_->inter_token, seconds);
  observe(impl_->per_output_token, seconds);
}

void Metrics::observe_step(int64_t tokens, double seconds) {
  observe(impl_->iteration_tokens, static_cast<double>(tokens));
  observe(impl_->step_seconds, seconds);
}

void Metrics::add_prompt_tokens(uint64_t tokens) {
  impl_->prompt_tokens.Increment(static_cast<double>(tokens));
}
void Metrics::add_generation_tokens(uint64_t tokens) {
  impl_->generation_tokens.Increment(static_cast<double>(tokens));
}
void Metrics::update_totals(const EngineTotals& totals) {
  impl_->update_totals(totals);
}

void Metrics::set_running(int64_t requests) {
  set(impl_->running, static_cast<double>(requests));
}
void Metrics::set_waiting(int64_t requests) {
  set(impl_->waiting, static_cast<double>(requests));
}
void Metrics::set_kv_cache_usage(double fraction) {
  set(impl_->kv_usage, fraction);
  set(impl_->gpu_usage, fraction);
}
void Metrics::set_cache_config(const CacheConfig& config) {
  impl_->set_cache_config(config);
}
void Metrics::set_weights_bytes(uint64_t bytes) {
  set(impl_->weights_bytes, static_cast<double>(bytes));
}
void Metrics::set_kv_bytes_total(uint64_t bytes) {
  set(impl_->kv_bytes_total, static_cast<double>(bytes));
}

void Metrics::observe_http_request(std::string_view handler, std::string_view method, int status,
                                   double seconds) {
  impl_->observe_http_request(handler, method, status, seconds);
}

std::string Metrics::text() const {
  return impl_->text();
}

}  // namespace pagoda::telemetry
