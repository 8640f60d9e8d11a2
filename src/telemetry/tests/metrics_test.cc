#include "telemetry/metrics.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <regex>
#include <sstream>
#include <thread>
#include <vector>

#include "telemetry/buckets.h"

namespace pagoda::telemetry {
namespace {

// One exposition, checked line by line against the text format while it is read.
class Exposition {
 public:
  explicit Exposition(const std::string& text) {
    EXPECT_TRUE(text.ends_with('\n'));
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) read_line(line);
    check_histograms();
  }

  // Samples by name and labels, as written: `name{a="b"}`.
  double value(const std::string& sample) const {
    const auto found = samples_.find(sample);
    EXPECT_NE(found, samples_.end()) << sample;
    return found == samples_.end() ? std::nan("") : found->second;
  }
  bool has(const std::string& sample) const { return samples_.count(sample) != 0; }
  std::string type(const std::string& name) const { return types_.count(name) != 0 ? types_.at(name) : ""; }
  size_t count_series(const std::string& prefix) const {
    size_t count = 0;
    for (const auto& [sample, value] : samples_) count += sample.starts_with(prefix) ? 1 : 0;
    return count;
  }
  // The finite bounds of a histogram with the labels `labels`.
  std::vector<double> bounds(const std::string& histogram, const std::string& labels) const {
    const auto found = series_.find(histogram + labels);
    if (found == series_.end()) return {};
    return {found->second.bounds.begin(), found->second.bounds.end() - 1};
  }

 private:
  void read_line(const std::string& line) {
    static const std::regex kComment(R"(# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+))");
    static const std::regex kSample(
        R"re(([a-zA-Z_:][a-zA-Z0-9_:]*))re"
        R"re(((?:\{(?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*",?)*\})?) (\S+))re");
    std::smatch match;
    if (std::regex_match(line, match, kComment)) {
      if (match[1] == "HELP") return;
      EXPECT_TRUE(types_.emplace(match[2], match[3]).second) << "second TYPE: " << line;
      return;
    }
    ASSERT_TRUE(std::regex_match(line, match, kSample)) << line;
    const std::string name = match[1], value = match[3];
    EXPECT_TRUE(types_.count(name) != 0 || types_.count(family_of(name)) != 0) << "no TYPE before " << line;
    EXPECT_TRUE(samples_.emplace(name + match[2].str(), value == "+Inf" ? INFINITY : std::stod(value)).second)
        << "twice: " << line;
    if (name.ends_with("_bucket")) read_bucket(name, match[2], std::stod(value));
  }

  static std::string family_of(const std::string& name) { return name.substr(0, name.rfind('_')); }

  // Buckets are gathered by series: the family and the labels but `le`.
  void read_bucket(const std::string& name, const std::string& labels, double value) {
    static const std::regex kLe(R"re(,?le="([^"]+)")re");
    std::smatch match;
    ASSERT_TRUE(std::regex_search(labels, match, kLe)) << labels;
    Series& series = series_[family_of(name) + match.prefix().str() + match.suffix().str()];
    const std::string le = match[1];
    EXPECT_TRUE(series.counts.empty() || series.counts.back() <= value) << name << labels;
    series.bounds.push_back(le == "+Inf" ? INFINITY : std::stod(le));
    series.counts.push_back(value);
  }

  void check_histograms() const {
    for (const auto& [name, series] : series_) {
      EXPECT_EQ(series.bounds.back(), INFINITY) << name;
      EXPECT_TRUE(std::is_sorted(series.bounds.begin(), series.bounds.end())) << name;
      const size_t brace = name.find('{');
      EXPECT_EQ(value(name.substr(0, brace) + "_count" + name.substr(brace)), series.counts.back()) << name;
      EXPECT_TRUE(has(name.substr(0, brace) + "_sum" + name.substr(brace))) << name;
    }
  }

  struct Series {
    std::vector<double> bounds, counts;
  };

  std::map<std::string, std::string> types_;
  std::map<std::string, double> samples_;
  std::map<std::string, Series> series_;
};

const std::string kLabels = R"({engine="0",model_name="m"})";

Exposition expose(const Metrics& metrics) {
  return Exposition(metrics.text());
}

TEST(MetricsTest, EverySeriesStartsWithZero) {
  const Metrics metrics({"m", "0", 8192});
  const Exposition text = expose(metrics);
  for (const std::string name :
       {"e2e_request_latency_seconds", "time_to_first_token_seconds", "inter_token_latency_seconds",
        "time_per_output_token_seconds", "request_queue_time_seconds", "request_prefill_time_seconds",
        "request_decode_time_seconds", "request_inference_time_seconds", "request_prompt_tokens",
        "request_generation_tokens", "request_max_num_generation_tokens", "request_params_n",
        "request_params_max_tokens", "iteration_tokens_total"}) {
    EXPECT_EQ(text.type("vllm:" + name), "histogram") << name;
    EXPECT_EQ(text.value("vllm:" + name + "_count" + kLabels), 0) << name;
  }
  for (const std::string name :
       {"prompt_tokens_total", "generation_tokens_total", "num_preemptions_total",
        "prefix_cache_queries_total", "prefix_cache_hits_total", "spec_decode_num_drafts_total",
        "spec_decode_num_draft_tokens_total", "spec_decode_num_accepted_tokens_total"}) {
    EXPECT_EQ(text.type("vllm:" + name), "counter") << name;
    EXPECT_EQ(text.value("vllm:" + name + kLabels), 0) << name;
  }
  for (const std::string name :
       {"num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "gpu_cache_usage_perc"}) {
    EXPECT_EQ(text.type("vllm:" + name), "gauge") << name;
    EXPECT_EQ(text.value("vllm:" + name + kLabels), 0) << name;
  }
  for (const std::string reason : {"stop", "length", "abort", "error"}) {
    EXPECT_EQ(text.value(R"(vllm:request_success_total{engine="0",finished_reason=")" + reason +
                         R"(",model_name="m"})"),
              0);
  }
  EXPECT_EQ(text.type("vllm:request_success_total"), "counter");
  EXPECT_EQ(text.value("pagoda:queue_rejected_total" + kLabels), 0);
  EXPECT_EQ(text.value("pagoda:weights_bytes" + kLabels), 0);
  EXPECT_EQ(text.value("pagoda:kv_bytes_total" + kLabels), 0);
  EXPECT_EQ(text.value("pagoda:step_seconds_count" + kLabels), 0);
}

TEST(MetricsTest, HistogramsExposeTheirBounds) {
  const Metrics metrics({"m", "0", 1000});
  const Exposition text = expose(metrics);
  for (const std::string name : {"e2e_request_latency", "request_queue_time", "request_prefill_time",
                                 "request_decode_time", "request_inference_time"}) {
    EXPECT_EQ(text.bounds("vllm:" + name + "_seconds", kLabels), latency_buckets()) << name;
  }
  EXPECT_EQ(text.bounds("vllm:time_to_first_token_seconds", kLabels), ttft_buckets());
  EXPECT_EQ(text.bounds("vllm:inter_token_latency_seconds", kLabels), inter_token_buckets());
  EXPECT_EQ(text.bounds("vllm:time_per_output_token_seconds", kLabels), inter_token_buckets());
  for (const std::string name : {"request_prompt_tokens", "request_generation_tokens",
                                 "request_max_num_generation_tokens", "request_params_max_tokens"}) {
    EXPECT_EQ(text.bounds("vllm:" + name, kLabels), one_two_five_buckets(1000)) << name;
  }
  EXPECT_EQ(text.bounds("vllm:request_params_n", kLabels), choice_buckets());
  EXPECT_EQ(text.bounds("vllm:iteration_tokens_total", kLabels), step_token_buckets());
}

TEST(MetricsTest, RequestSampleReachesItsSeries) {
  Metrics metrics({"m", "0", 8192});
  metrics.observe_request({.e2e_latency_s = 3,
                           .queue_time_s = 0.25,
                           .prefill_time_s = 0.75,
                           .decode_time_s = 2,
                           .inference_time_s = 2.75,
                           .prompt_tokens = 17,
                           .generation_tokens = 40,
                           .max_generation_tokens = 25,
                           .params_n = 2,
                           .params_max_tokens = 25,
                           .finished_reason = FinishedReason::kLength});
  // An aborted request that never ran: its phases are not counted.
  metrics.observe_request({.e2e_latency_s = 1, .queue_time_s = 1, .finished_reason = FinishedReason::kAbort});
  const Exposition text = expose(metrics);
  const auto sum = [&](const std::string& name) { return text.value("vllm:" + name + "_sum" + kLabels); };
  const auto count = [&](const std::string& name) { return text.value("vllm:" + name + "_count" + kLabels); };
  EXPECT_EQ(sum("e2e_request_latency_seconds"), 4);
  EXPECT_EQ(count("e2e_request_latency_seconds"), 2);
  EXPECT_EQ(sum("request_queue_time_seconds"), 1.25);
  EXPECT_EQ(sum("request_prefill_time_seconds"), 0.75);
  EXPECT_EQ(count("request_prefill_time_seconds"), 1);
  EXPECT_EQ(sum("request_decode_time_seconds"), 2);
  EXPECT_EQ(sum("request_inference_time_seconds"), 2.75);
  EXPECT_EQ(sum("request_prompt_tokens"), 17);
  EXPECT_EQ(sum("request_generation_tokens"), 40);
  EXPECT_EQ(sum("request_max_num_generation_tokens"), 25);
  EXPECT_EQ(sum("request_params_n"), 3);
  EXPECT_EQ(sum("request_params_max_tokens"), 25);
  EXPECT_EQ(text.value(R"(vllm:request_success_total{engine="0",finished_reason="length",model_name="m"})"),
            1);
  EXPECT_EQ(text.value(R"(vllm:request_success_total{engine="0",finished_reason="abort",model_name="m"})"),
            1);
  EXPECT_EQ(text.value(R"(vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"})"), 0);
  EXPECT_EQ(text.value(R"(vllm:e2e_request_latency_seconds_bucket{engine="0",model_name="m",le="2.5"})"), 1);
  EXPECT_EQ(text.value(R"(vllm:e2e_request_latency_seconds_bucket{engine="0",model_name="m",le="5"})"), 2);
}

TEST(MetricsTest, TokensStepsAndGauges) {
  Metrics metrics({"m", "0", 8192});
  metrics.observe_ttft(0.5);
  metrics.observe_inter_token(0.125);
  metrics.observe_step(64, 0.25);
  metrics.add_prompt_tokens(5);
  metrics.add_prompt_tokens(6);
  metrics.add_generation_tokens(7);
  metrics.set_running(3);
  metrics.set_waiting(9);
  metrics.set_kv_cache_usage(0.75);
  metrics.set_weights_bytes(uint64_t{5} << 30);
  metrics.set_kv_bytes_total(123456789);
  const Exposition text = expose(metrics);
  EXPECT_EQ(text.value("vllm:time_to_first_token_seconds_sum" + kLabels), 0.5);
  EXPECT_EQ(text.value("vllm:inter_token_latency_seconds_sum" + kLabels), 0.125);
  EXPECT_EQ(text.value("vllm:time_per_output_token_seconds_sum" + kLabels), 0.125);
  EXPECT_EQ(text.value("vllm:iteration_tokens_total_sum" + kLabels), 64);
  EXPECT_EQ(text.value("pagoda:step_seconds_sum" + kLabels), 0.25);
  EXPECT_EQ(text.value("vllm:prompt_tokens_total" + kLabels), 11);
  EXPECT_EQ(text.value("vllm:generation_tokens_total" + kLabels), 7);
  EXPECT_EQ(text.value("vllm:num_requests_running" + kLabels), 3);
  EXPECT_EQ(text.value("vllm:num_requests_waiting" + kLabels), 9);
  EXPECT_EQ(text.value("vllm:kv_cache_usage_perc" + kLabels), 0.75);
  EXPECT_EQ(text.value("vllm:gpu_cache_usage_perc" + kLabels), 0.75);
  EXPECT_EQ(text.value("pagoda:weights_bytes" + kLabels), 5368709120.0);
  EXPECT_EQ(text.value("pagoda:kv_bytes_total" + kLabels), 123456789);
}

TEST(MetricsTest, TotalsAreMirroredAndNeverFall) {
  Metrics metrics({"m", "0", 8192});
  metrics.update_totals({.preemptions = 2,
                         .prefix_cache_queries = 100,
                         .prefix_cache_hits = 48,
                         .queue_rejected = 1,
                         .spec_decode_drafts = 7,
                         .spec_decode_draft_tokens = 30,
                         .spec_decode_accepted_tokens = 21});
  metrics.update_totals({.preemptions = 2,
                         .prefix_cache_queries = 150,
                         .prefix_cache_hits = 40,
                         .queue_rejected = 4,
                         .spec_decode_drafts = 9,
                         .spec_decode_draft_tokens = 29,
                         .spec_decode_accepted_tokens = 25});
  const Exposition text = expose(metrics);
  EXPECT_EQ(text.value("vllm:num_preemptions_total" + kLabels), 2);
  EXPECT_EQ(text.value("vllm:prefix_cache_queries_total" + kLabels), 150);
  EXPECT_EQ(text.value("vllm:prefix_cache_hits_total" + kLabels), 48);
  EXPECT_EQ(text.value("pagoda:queue_rejected_total" + kLabels), 4);
  EXPECT_EQ(text.value("vllm:spec_decode_num_drafts_total" + kLabels), 9);
  EXPECT_EQ(text.value("vllm:spec_decode_num_draft_tokens_total" + kLabels), 30);
  EXPECT_EQ(text.value("vllm:spec_decode_num_accepted_tokens_total" + kLabels), 25);
}

TEST(MetricsTest, CacheConfigIsOneSeries) {
  Metrics metrics({"m", "0", 8192});
  metrics.set_cache_config({.block_size = 16, .num_gpu_blocks = 100, .enable_prefix_caching = true});
  metrics.set_cache_config({.block_size = 16, .num_gpu_blocks = 2048, .enable_prefix_caching = false});
  const Exposition text = expose(metrics);
  EXPECT_EQ(text.type("vllm:cache_config_info"), "gauge");
  EXPECT_EQ(text.count_series("vllm:cache_config_info"), 1u);
  EXPECT_EQ(
      text.value("vllm:cache_config_info{block_size=\"16\",enable_prefix_caching=\"False\",engine=\"0\","
                 "model_name=\"m\",num_gpu_blocks=\"2048\"}"),
      1);
}

TEST(MetricsTest, HttpRequestsAreCountedByClassOfStatus) {
  Metrics metrics({"m", "0", 8192});
  metrics.observe_http_request("/v1/completions", "POST", 200, 0.25);
  metrics.observe_http_request("/v1/completions", "POST", 204, 0.5);
  metrics.observe_http_request("/v1/completions", "POST", 429, 0.125);
  metrics.observe_http_request("/v1/models/{id}", "GET", 200, 0.001);
  metrics.observe_http_request("/health", "BREW", 42, 0.001);
  const Exposition text = expose(metrics);
  EXPECT_EQ(text.type("http_requests_total"), "counter");
  EXPECT_EQ(text.value(R"(http_requests_total{handler="/v1/completions",method="POST",status="2xx"})"), 2);
  EXPECT_EQ(text.value(R"(http_requests_total{handler="/v1/completions",method="POST",status="4xx"})"), 1);
  EXPECT_EQ(text.value(R"(http_requests_total{handler="/v1/models/{id}",method="GET",status="2xx"})"), 1);
  EXPECT_EQ(text.value(R"(http_requests_total{handler="/health",method="OTHER",status="other"})"), 1);
  EXPECT_EQ(text.value(R"(http_request_duration_seconds_sum{handler="/v1/completions",method="POST"})"),
            0.875);
  EXPECT_EQ(text.value(R"(http_request_duration_seconds_count{handler="/v1/completions",method="POST"})"), 3);
}

TEST(MetricsTest, ManyHandlersDoNotGrowTheRegistryWithoutEnd) {
  Metrics metrics({"m", "0", 8192});
  for (int i = 0; i < 1000; ++i) metrics.observe_http_request(fmt::format("/{}", i), "GET", 404, 0.1);
  const Exposition text = expose(metrics);
  EXPECT_LE(text.count_series("http_requests_total"), 129u);
  EXPECT_EQ(text.value(R"(http_requests_total{handler="other",method="GET",status="4xx"})"), 1000 - 128);
}

TEST(MetricsTest, LabelsAreEscaped) {
  const Metrics metrics({"a\"b\\c\nd", "0", 8192});
  EXPECT_TRUE(expose(metrics).has("vllm:prompt_tokens_total{engine=\"0\",model_name=\"a\\\"b\\\\c\\nd\"}"));
}

TEST(MetricsTest, ValuesThatAreNoNumbersAreDropped) {
  Metrics metrics({"m", "0", 8192});
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity(), -1.0}) {
    metrics.observe_ttft(bad);
    metrics.observe_http_request("/", "GET", 200, bad);
  }
  metrics.set_kv_cache_usage(std::nan(""));
  metrics.observe_ttft(2);
  const Exposition text = expose(metrics);
  EXPECT_EQ(text.value("vllm:time_to_first_token_seconds_sum" + kLabels), 2);
  EXPECT_EQ(text.value("vllm:time_to_first_token_seconds_count" + kLabels), 1);
  EXPECT_EQ(text.value("vllm:kv_cache_usage_perc" + kLabels), 0);
}

TEST(MetricsTest, ProcessSeriesArePresent) {
  const Metrics metrics({"m", "0", 8192});
  const Exposition text = expose(metrics);
  EXPECT_EQ(text.type("process_cpu_seconds_total"), "counter");
  EXPECT_EQ(text.type("process_resident_memory_bytes"), "gauge");
  EXPECT_GT(text.value("process_resident_memory_bytes"), 1e5);
  EXPECT_GT(text.value("process_open_fds"), 0);
}

TEST(MetricsTest, ThreadsLoseNothing) {
  Metrics metrics({"m", "0", 8192});
  constexpr int kThreads = 4, kRounds = 2000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&metrics, t] {
      for (uint64_t i = 1; i <= kRounds; ++i) {
        metrics.add_generation_tokens(1);
        metrics.observe_inter_token(0.5);
        metrics.observe_http_request(t % 2 == 0 ? "/a" : "/b", "GET", 200, 0.5);
        metrics.update_totals({.prefix_cache_queries = i});
        if (i % 500 == 0) metrics.text();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Exposition text = expose(metrics);
  EXPECT_EQ(text.value("vllm:generation_tokens_total" + kLabels), kThreads * kRounds);
  EXPECT_EQ(text.value("vllm:inter_token_latency_seconds_count" + kLabels), kThreads * kRounds);
  EXPECT_EQ(text.value(R"(http_requests_total{handler="/a",method="GET",status="2xx"})"),
            kThreads / 2 * kRounds);
  EXPECT_EQ(text.value("vllm:prefix_cache_queries_total" + kLabels), kRounds);
}

}  // namespace
}  // namespace pagoda::telemetry
