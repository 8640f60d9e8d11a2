// Times every kernel per shape, tier and number of threads, and holds the times against what this machine
// can do at most, measured at the start. bench/README.md explains the figures.
#include <fmt/format.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/resource_limits.h"
#include "kernels/isa.h"
#include "machine/peaks.h"
#include "micro/kernel_calls.h"

namespace pagoda::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

struct Options {
  std::vector<std::string> isas, shapes, only;
  std::vector<int> threads;
  double seconds = 0.1;  // per op, tier and number of threads
  bool quick = false;
  std::string json_path;
};

// A tier on a pool, and its peaks.
struct Setting {
  Isa isa;
  ComputePool* pool;
  MachinePeaks peaks;
};

// With one thread its CPU time counts, so that a busy machine does not count as slowness; with more the wall
// clock.
double seconds_now(const ComputePool& pool) {
  timespec now;
  clock_gettime(pool.num_threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

struct Times {
  double best, median;
};

// Times of call(i), i = 0, 1, ..., for about `seconds`; at least 3 calls after one that warms up. Short calls
// are timed in groups of 20 us at least, as reading a clock takes up to half a microsecond.
Times time_op(const Op& op, ComputePool& pool, double seconds) {
  int i = 0;
  const auto timed = [&](int count) {
    const double before = seconds_now(pool);
    for (int n = 0; n < count; ++n) op.call(i++, pool);
    return (seconds_now(pool) - before) / count;
  };
  timed(1);
  const int group = std::clamp(static_cast<int>(20e-6 / std::max(timed(1), 1e-8)), 1, 2000);
  std::vector<double> times;
  const auto start = Clock::now();
  while (times.size() < 3 || std::chrono::duration<double>(Clock::now() - start).count() < seconds)
    times.push_back(timed(group));
  std::sort(times.begin(), times.end());
  return {times.front(), times[times.size() / 2]};
}

double peak_of(Unit unit, const ComputePeaks& peaks) {
  switch (unit) {
    case Unit::kInt8:
      return peaks.int8;
    case Unit::kBF16:
      return peaks.bf16;
    case Unit::kF32:
      return peaks.f32;
    case Unit::kNone:
      break;
  }
  return 0;
}

// The shortest time that the peaks allow, and which of them sets it.
struct Bound {
  double seconds = 0;
  const char* name = "-";
  bool from_memory = false;
};

Bound bound_of(const Op& op, const MachinePeaks& peaks) {
  const double rate = peak_of(op.unit, peaks.compute);
  const double compute = rate > 0 ? op.executed / rate : 0;
  const bool memory = op.source == Source::kMemory;
  const double bytes = op.bytes / (memory ? peaks.memory.median : peaks.l2);
  if (compute > bytes)
    return {compute, op.unit == Unit::kInt8 ? "int8" : op.unit == Unit::kBF16 ? "bf16" : "f32", false};
  return {bytes, memory ? "memory" : "L2", memory};
}

Json measure(const Op& op, const Setting& setting, double seconds) {
  kernels::set_isa(setting.isa);
  const Times times = time_op(op, *setting.pool, seconds);
  const Bound bound = bound_of(op, setting.peaks);
  // The bandwidth of memory changes from one moment to the next: a lucky call would beat any peak, so the
  // median call is held against the median bandwidth.
  const double percent = 100 * bound.seconds / (bound.from_memory ? times.median : times.best);
  fmt::print("{:<7} {}t  {:<46} {:>11.2f} us {:>8.1f} GOPS {:>7.2f} GB/s {:>4.0f} % of {}\n",
             isa_name(setting.isa), setting.pool->num_threads(), op.name, times.best * 1e6,
             op.operations / times.best * 1e-9, op.bytes / times.best * 1e-9, percent, bound.name);
  std::fflush(stdout);
  return {{"group", op.group},
          {"name", op.name},
          {"isa", isa_name(setting.isa)},
          {"threads", setting.pool->num_threads()},
          {"us", times.best * 1e6},
          {"us_median", times.median * 1e6},
          {"gops", op.operations / times.best * 1e-9},
          {"gb_per_s", op.bytes / times.best * 1e-9},
          {"bound", bound.name},
          {"percent_of_bound", percent}};
}

bool wanted(const Op& op, const Options& options) {
  return options.only.empty() || std::any_of(options.only.begin(), options.only.end(), [&](const auto& part) {
           return op.name.find(part) != std::string::npos;
         });
}

bool contains(const std::vector<std::string>& list, std::string_view name) {
  return list.empty() || std::find(list.begin(), list.end(), name) != list.end();
}

std::vector<Isa> chosen_isas(const Options& options) {
  std::vector<Isa> isas;
  for (const Isa isa : supported_isas()) {
    if (options.isas.empty() ? isa != Isa::kScalar : contains(options.isas, isa_name(isa)))
      isas.push_back(isa);
  }
  return isas;
}

Json peaks_json(const Setting& setting) {
  const MachinePeaks& p = setting.peaks;
  return {{"isa", isa_name(setting.isa)},
          {"threads", p.threads},
          {"int8_gops", p.compute.int8 * 1e-9},
          {"bf16_gflops", p.compute.bf16 * 1e-9},
          {"f32_gflops", p.compute.f32 * 1e-9},
          {"memory_gb_per_s", p.memory.best * 1e-9},
          {"memory_gb_per_s_median", p.memory.median * 1e-9},
          {"l2_gb_per_s", p.l2 * 1e-9}};
}

Json run_ops(const Options& options, const std::vector<Setting>& settings) {
  Json cases = Json::array();
  OpChoice choice;
  choice.quick = options.quick;
  for (const Setting& setting : settings)
    choice.max_threads = std::max(choice.max_threads, setting.pool->num_threads());
  for (const ModelShape& shape : model_shapes()) {
    if (options.shapes.empty() ? options.quick && shape.name != "1.5b"
                               : !contains(options.shapes, shape.name))
      continue;
    for (const OpMaker& make : op_makers(shape, choice)) {
      for (const Op& op : make()) {
        if (!wanted(op, options)) continue;
        for (const Setting& setting : settings) {
          // The sampler's helpers and RoPE run on the caller's thread.
          const bool one_thread = op.group == "sampling" || op.group == "rope";
          if (one_thread && setting.pool->num_threads() != settings.front().pool->num_threads()) continue;
          cases.push_back(measure(op, setting, options.seconds));
        }
      }
    }
  }
  return cases;
}

int run(const Options& options) {
  std::vector<std::unique_ptr<ComputePool>> pools;
  for (const int threads : options.threads) pools.push_back(std::make_unique<ComputePool>(threads));
  std::vector<Setting> settings;
  Json report{{"cpu", cpu_model_name()}, {"peaks", Json::array()}};
  {
    const MemoryReader reader;
    for (const Isa isa : chosen_isas(options)) {
      for (const auto& pool : pools) {
        settings.push_back({isa, pool.get(), measure_peaks(isa, *pool, reader)});
        report["peaks"].push_back(peaks_json(settings.back()));
        fmt::print("{}\n", describe(settings.back().peaks, isa));
      }
    }
  }
  if (settings.empty()) {
    fmt::print(stderr, "This CPU has none of the tiers that --isa names.\n");
    return 1;
  }
  report["cases"] = run_ops(options, settings);
  if (!options.json_path.empty()) {
    std::ofstream file(options.json_path);
    file << report.dump(1) << '\n';
    if (!file.flush()) {
      fmt::print(stderr, "Cannot write {}.\n", options.json_path);
      return 1;
    }
  }
  return 0;
}

}  // namespace
}  // namespace pagoda::bench

int main(int argc, char** argv) {
  using namespace pagoda;
  bench::Options options;
  CLI::App app("Times the kernels and holds them against the measured peaks of this machine.");
  app.add_option("--isa", options.isas, "tiers: avx512, avx2, scalar (default: all of this CPU but scalar)");
  app.add_option("--threads", options.threads, "numbers of threads (default: 1, and all CPUs)");
  app.add_option("--shape", options.shapes, "smollm2-135m, 0.5b, 1.5b, 7b (default: all)");
  app.add_option("--only", options.only, "only ops whose name contains this");
  app.add_option("--seconds", options.seconds, "for each op, tier and number of threads");
  app.add_flag("--quick", options.quick, "the 1.5B shapes, fewer rows");
  app.add_option("--json", options.json_path, "write the figures for bench/micro/compare");
  CLI11_PARSE(app, argc, argv);
  if (options.threads.empty()) {
    options.threads = {1};
    if (const int cpus = read_resource_limits().cpus; cpus > 1) options.threads.push_back(cpus);
  }
  return bench::run(options);
}
