// Tokens per second of the engine with a real model and no server around it, by batch and context, and how
// much of what the machine allows that is. bench/README.md explains the figures.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/resource_limits.h"
#include "base/rng.h"
#include "cli/runtime.h"
#include "engine/engine.h"
#include "engine/limits.h"
#include "machine/peaks.h"

namespace pagoda::bench {
namespace {

using Json = nlohmann::ordered_json;
using SteadyTime = std::chrono::steady_clock;

struct Options {
  cli::EngineFlags flags;
  std::vector<int> batches{1, 2, 4, 8, 16, 32};
  std::vector<int64_t> contexts{128, 512, 2048};
  int64_t max_batch_tokens = 32768;
  int rounds = 3;
  int decode_steps = 48;
  bool sampled = false;
  std::string json_path;
};

double seconds_since(SteadyTime::time_point start) {
  return std::chrono::duration<double>(SteadyTime::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Drives one engine step by step on this thread, as the engine's own thread would.
class Driver {
 public:
  Driver(cli::Runtime& runtime, const Options& options)
      : engine_(runtime.engine()), options_(options), vocab_(runtime.model().config().vocab_size) {}

  // Seconds for a prompt that no cache knows, up to its first token.
  double prefill(int64_t tokens);
  // Seconds of one step that decodes `batch` sequences of about `context` tokens; the median of the steps.
  // The prompts of a batch are distinct, and the same for every call, so that a larger batch or a longer
  // context computes only what is new; the prefix cache has the rest.
  double decode_step(int batch, int64_t context);

 private:
  // Token ids of stream `stream`; a shorter prompt is the head of a longer one.
  std::vector<TokenId> prompt(uint64_t stream, int64_t tokens) const;
  void submit(uint64_t stream, int64_t prompt_tokens, int64_t max_tokens, const std::string& salt);

  engine::Engine& engine_;
  const Options& options_;
  int64_t vocab_;
  uint64_t next_id_ = 1;
  uint64_t next_salt_ = 1;
  int waiting_for_first_ = 0;  // sequences that have no token yet
  int running_ = 0;
};

std::vector<TokenId> Driver::prompt(uint64_t stream, int64_t tokens) const {
  std::vector<TokenId> ids;
  uint64_t state = 0x9e3779b97f4a7c15u * (stream + 1);
  for (int64_t i = 0; i < tokens; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    ids.push_back(TokenId{static_cast<int32_t>((state >> 33) % static_cast<uint64_t>(vocab_))});
  }
  return ids;
}

void Driver::submit(uint64_t stream, int64_t prompt_tokens, int64_t max_tokens, const std::string& salt) {
  engine::EngineRequest request;
  request.id = RequestId{next_id_++};
  request.prompt = prompt(stream, prompt_tokens);
  request.max_tokens = max_tokens;
  request.sampling.temperature = options_.sampled ? 0.8f : 0.0f;
  if (options_.sampled) request.sampling.top_p = 0.95f;
  request.sampling.seed = stream;
  request.cache_salt = salt;
  ++waiting_for_first_;
  ++running_;
  request.sink = [this, first = true](std::span<const engine::EngineEvent> events) mutable {
    for (const engine::EngineEvent& event : events) {
      if (event.has_token && first) {
        first = false;
        --waiting_for_first_;
      }
      if (event.finish != engine::FinishReason::kNone) --running_;
    }
  };
  if (auto accepted = engine_.submit(std::move(request)); !accepted) {
    fmt::print(stderr, "engine_bench: {}\n", accepted.error().message);
    std::exit(1);
  }
}

double Driver::prefill(int64_t tokens) {
  submit(1'000'000 + next_salt_, tokens, 1, fmt::format("prefill {}", next_salt_));
  ++next_salt_;
  const auto start = SteadyTime::now();
  while (waiting_for_first_ > 0) engine_.step();
  const double seconds = seconds_since(start);
  while (running_ > 0) engine_.step();
  return seconds;
}

double Driver::decode_step(int batch, int64_t context) {
  // Sequences that start early go on while the last prompt is computed; none may end before the timing does.
  const int64_t chunk = engine_.options().max_num_batched_tokens / 2 + 1;
  const int64_t head_start = batch * context / std::min(chunk, int64_t{32}) + batch;
  for (int i = 0; i < batch; ++i)
    submit(static_cast<uint64_t>(i), context, options_.decode_steps + head_start + 2, "decode");
  const uint64_t first_id = next_id_ - static_cast<uint64_t>(batch);
  while (waiting_for_first_ > 0) engine_.step();
  std::vector<double> seconds;
  for (int i = 0; i < options_.decode_steps; ++i) {
    const auto start = SteadyTime::now();
    engine_.step();
    seconds.push_back(seconds_since(start));
  }
  for (uint64_t id = first_id; id < next_id_; ++id) engine_.abort(RequestId{id});
  while (running_ > 0) engine_.step();
  return median(seconds);
}

struct Machine {
  explicit Machine(int threads) : pool(threads) {}
  ComputePool pool;
  MemoryReader reader;
  MachinePeaks peaks;
};

void describe_model(const cli::Runtime& runtime, const ModelCost& cost) {
  fmt::print("{}: {}\n", runtime.plan().checkpoint.path, runtime.model().layout_summary());
  fmt::print(
      "per token: {:.1f} MB of weights, {:.0f} M parameters in layers and {:.0f} M in the head, {:.1f} KB of "
      "KV; {:.2f} products for each parameter\n",
      cost.weight_bytes * 1e-6, cost.layer_parameters * 1e-6, cost.head_parameters * 1e-6,
      cost.kv_bytes_per_token * 1e-3, cost.products_each);
}

Json bench_prefill(Driver& driver, const Options& options, const ModelCost& cost, Machine& machine) {
  Json rows = Json::array();
  fmt::print("\nprefill   tokens   tokens/s   limit   % of it\n");
  for (const int64_t tokens : options.contexts) {
    std::vector<double> seconds;
    for (int round = 0; round < options.rounds; ++round) seconds.push_back(driver.prefill(tokens));
    const double best = median(seconds);
    const double limit = prefill_limit_s(cost, tokens, machine.peaks.compute);
    const auto n = static_cast<double>(tokens);
    fmt::print("          {:>6} {:>10.1f} {:>7.1f} {:>9.1f}\n", tokens, n / best, n / limit,
               100 * limit / best);
    std::fflush(stdout);
    rows.push_back({{"tokens", tokens},
                    {"tokens_per_s", n / best},
                    {"limit_tokens_per_s", n / limit},
                    {"percent", 100 * limit / best}});
  }
  return rows;
}

struct DecodePoint {
  int batch = 1;
  int64_t context = 0;
};

// A decode step and the memory bandwidth just before it, `rounds` times: both change with what the machine's
// other guests do, so the share is taken round by round.
Json decode_point(Driver& driver, const Options& options, const ModelCost& cost, Machine& machine,
                  DecodePoint point) {
  constexpr int kPasses = 8;
  const auto [batch, context] = point;
  std::vector<double> seconds, shares, weight_shares, bandwidths;
  for (int round = 0; round < options.rounds; ++round) {
    const double bandwidth = machine.reader.measure(machine.pool, kPasses).median;
    seconds.push_back(driver.decode_step(batch, context));
    const DecodeLimit limit = decode_limit(cost, batch, context, machine.peaks.compute, bandwidth);
    shares.push_back(100 * limit.seconds() / seconds.back());
    weight_shares.push_back(100 * limit.weights_s / seconds.back());
    bandwidths.push_back(bandwidth);
  }
  const double typical = median(seconds), bandwidth = median(bandwidths);
  const DecodeLimit limit = decode_limit(cost, batch, context, machine.peaks.compute, bandwidth);
  const char* bound = limit.memory_s > limit.compute_s ? "memory" : "compute";
  fmt::print("        {:>5} {:>8} {:>10.1f} {:>9.1f} {:>8} {:>8.1f} {:>11.1f} {:>10.1f}\n", batch, context,
             batch / typical, batch / limit.seconds(), bound, median(shares), median(weight_shares),
             bandwidth * 1e-9);
  std::fflush(stdout);
  return {{"batch", batch},
          {"context", context},
          {"tokens_per_s", batch / typical},
          {"step_ms", typical * 1e3},
          {"limit_tokens_per_s", batch / limit.seconds()},
          {"bound", bound},
          {"percent", median(shares)},
          {"percent_of_weights_over_bandwidth", median(weight_shares)},
          {"bandwidth_gb_per_s", bandwidth * 1e-9}};
}

Json bench_decode(Driver& driver, const Options& options, const ModelCost& cost, Machine& machine) {
  Json rows = Json::array();
  fmt::print("\ndecode  batch  context   tokens/s     limit    bound  % of it  % weights/BW  GB/s now\n");
  for (const int64_t context : options.contexts) {
    for (const int batch : options.batches) {
      if (batch * context > options.max_batch_tokens) {
        fmt::print("        {:>5} {:>8}   left out: more than --max-batch-tokens {}\n", batch, context,
                   options.max_batch_tokens);
        continue;
      }
      rows.push_back(decode_point(driver, options, cost, machine, {batch, context}));
    }
  }
  return rows;
}

// The figures that the project has set itself, in one line each.
void print_summary(const Json& report) {
  fmt::print("\nsummary\n");
  for (const Json& row : report["decode"]) {
    if (row["context"] != report["decode"][0]["context"]) continue;
    if (row["batch"] == 1)
      fmt::print("decode-1 runs at {:.0f} % of weight bytes / memory bandwidth (aim: 85 % on a 1.5B model)\n",
                 row["percent_of_weights_over_bandwidth"].get<double>());
    if (row["batch"] == 16)
      fmt::print("batch-16 runs at {:.0f} % of its limit, set by {} (aim: 60 %)\n",
                 row["percent"].get<double>(), row["bound"].get<std::string>());
  }
  for (const Json& row : report["prefill"]) {
    fmt::print("prefill of {} runs at {:.0f} % of the compute peak (aim: 65 %)\n",
               row["tokens"].get<int64_t>(), row["percent"].get<double>());
  }
}

Json peaks_json(const MachinePeaks& p, Isa isa) {
  return {{"isa", isa_name(isa)},
          {"threads", p.threads},
          {"int8_gops", p.compute.int8 * 1e-9},
          {"bf16_gflops", p.compute.bf16 * 1e-9},
          {"memory_gb_per_s", p.memory.best * 1e-9},
          {"memory_gb_per_s_median", p.memory.median * 1e-9}};
}

Result<Json> run(const Options& options) {
  const SteadyClock clock;
  cli::RunPlan plan = PAGODA_TRY(cli::make_run_plan(options.flags));
  const Isa isa = plan.isa;
  Machine machine(plan.threads);
  machine.peaks = measure_peaks(isa, machine.pool, machine.reader);
  fmt::print("{}\n{}\n", cpu_model_name(), describe(machine.peaks, isa));
  const auto start = SteadyTime::now();
  const std::unique_ptr<cli::Runtime> runtime =
      PAGODA_TRY(cli::Runtime::load(std::move(plan), "", {}, clock));
  const double load_s = seconds_since(start);
  const model::Decoder& model = runtime->model();
  const ModelCost cost = model_cost(model.config(), model.kv_shape(),
                                    static_cast<double>(model.weight_bytes()), model.layout_summary());
  describe_model(*runtime, cost);
  fmt::print("loaded in {:.2f} s; step budget {} tokens\n", load_s, options.flags.max_num_batched_tokens);
  Json report{{"cpu", cpu_model_name()},
              {"model", runtime->plan().checkpoint.path},
              {"layouts", model.layout_summary()},
              {"peaks", peaks_json(machine.peaks, isa)},
              {"load_s", load_s},
              {"weight_bytes", cost.weight_bytes},
              {"layer_parameters", cost.layer_parameters},
              {"head_parameters", cost.head_parameters}};
  Driver driver(*runtime, options);
  driver.prefill(options.contexts.front());  // touches every page once
  report["prefill"] = bench_prefill(driver, options, cost, machine);
  report["decode"] = bench_decode(driver, options, cost, machine);
  print_summary(report);
  return report;
}

}  // namespace
}  // namespace pagoda::bench

int main(int argc, char** argv) {
  using namespace pagoda;
  bench::Options options;
  CLI::App app("Tokens per second of the engine, without a server, against what the machine allows.");
  app.add_option("model", options.flags.model, "GGUF file or Hugging Face folder")->required();
  app.add_option("--batch", options.batches, "sequences that decode together");
  app.add_option("--context", options.contexts, "prompt lengths");
  app.add_option("--max-batch-tokens", options.max_batch_tokens, "leave out larger batch * context");
  app.add_option("--rounds", options.rounds, "of each figure; the median counts");
  app.add_option("--steps", options.decode_steps, "decode steps of a round");
  app.add_flag("--sampled", options.sampled, "temperature 0.8 and top-p 0.95 instead of greedy");
  app.add_option("--threads", options.flags.threads, "compute threads (default: all CPUs of the quota)");
  app.add_option("--max-num-batched-tokens", options.flags.max_num_batched_tokens, "token budget of a step");
  app.add_option("--activation-precision", options.flags.activation_precision, "auto, int8, int16");
  app.add_option("--kv-cache-dtype", options.flags.kv_cache_dtype, "bfloat16, float16, float32, int8");
  app.add_option("--json", options.json_path, "write the figures");
  CLI11_PARSE(app, argc, argv);
  const int64_t longest = *std::max_element(options.contexts.begin(), options.contexts.end());
  options.flags.speculative_config = "off";  // a step yields one token of each sequence
  options.flags.max_model_len = std::to_string(longest * 3 + 4096);
  auto report = bench::run(options);
  if (!report) {
    fmt::print(stderr, "engine_bench: {}\n", report.error().message);
    return 1;
  }
  if (options.json_path.empty()) return 0;
  std::ofstream file(options.json_path);
  file << report->dump(1) << '\n';
  if (!file.flush()) {
    fmt::print(stderr, "engine_bench: cannot write {}\n", options.json_path);
    return 1;
  }
  return 0;
}
