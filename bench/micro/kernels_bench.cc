// Times matmul per layout, rows, shape, tier and threads, and attention for decode and prefill.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/attention.h"
#include "kernels/isa.h"
#include "kernels/matmul.h"

namespace pagoda::kernels {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSecondsPerCase = 0.25;
constexpr size_t kBeyondCacheBytes = size_t{100}
                                     << 20;  // three times the last-level cache of the reference machine

struct Options {
  std::optional<Isa> isa;
  std::optional<int> threads;
  std::string only;
};

// With one thread its CPU time counts, so that a busy machine does not count as slowness; with more the wall
// clock.
double seconds_now(const ComputePool& pool) {
  timespec now;
  clock_gettime(pool.num_threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// The shortest time of call(i), i = 0, 1, ..., within the time limit; at least 3 calls.
template <class Call>
double best_seconds(const ComputePool& pool, const Call& call) {
  double best = 1e9;
  const auto start = Clock::now();
  for (int i = 0; i < 3 || std::chrono::duration<double>(Clock::now() - start).count() < kSecondsPerCase;
       ++i) {
    const double before = seconds_now(pool);
    call(i);
    best = std::min(best, seconds_now(pool) - before);
  }
  return best;
}

std::vector<float> random_floats(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 1000.0f;
  return values;
}

PackedWeight make_weight(const PackedWeightSpec& spec, uint32_t seed) {
  PackedWeight weight(spec);
  std::mt19937 random(seed);
  const auto depth = static_cast<size_t>(spec.depth);
  std::vector<uint8_t> codes(kPanelRows * depth);
  for (auto& code : codes)
    code = static_cast<uint8_t>(random() & (spec.layout == WeightLayout::kW4 ? 15 : 255));
  const std::vector<float> values = random_floats(kPanelRows * depth, seed);
  PanelSource source;
  source.codes = codes.data();
  source.code_stride = spec.depth;
  source.scales = source.offsets = source.values = values.data();
  source.value_stride = spec.depth;
  for (int64_t panel = 0; panel < weight.num_panels(); ++panel) weight.pack_panel(panel, source);
  return weight;
}

struct MatmulCase {
  std::string name;
  PackedWeightSpec spec;
  ActivationForm coded = ActivationForm::kInt8;  // what kW4 and kW8 multiply with
};

std::vector<MatmulCase> matmul_cases(int64_t size) {
  const auto coded = [&](WeightLayout layout, int group, bool offsets) {
    PackedWeightSpec spec;
    spec.layout = layout;
    spec.rows = spec.depth = size;
    spec.group_size = group;
    spec.has_offsets = offsets;
    spec.zero_point = offsets ? 0 : layout == WeightLayout::kW4 ? 8 : 128;
    return spec;
  };
  PackedWeightSpec bf16, f32;
  bf16.layout = WeightLayout::kBF16;
  bf16.rows = bf16.depth = f32.rows = f32.depth = size;
  constexpr auto kW4 = WeightLayout::kW4, kW8 = WeightLayout::kW8;
  constexpr auto kInt16 = ActivationForm::kInt16;
  return {{"W4 g32", coded(kW4, 32, false)},
          {"W4 g32 offsets", coded(kW4, 32, true)},
          {"W4 g128", coded(kW4, 128, false)},
          {"W4 g128 offsets", coded(kW4, 128, true)},
          {"W8 g32", coded(kW8, 32, false)},
          {"W8 g16", coded(kW8, 16, false)},
          {"W4 g32 int16", coded(kW4, 32, false), kInt16},
          {"W4 g32 off int16", coded(kW4, 32, true), kInt16},
          {"W8 g32 int16", coded(kW8, 32, false), kInt16},
          {"bf16", bf16},
          {"f32", f32}};
}

void bench_matmul(const MatmulCase& c, int64_t rows, bool dram, ComputePool& pool) {
  std::vector<PackedWeight> weights;
  size_t bytes = 0;
  do {
    weights.push_back(make_weight(c.spec, static_cast<uint32_t>(weights.size() + 1)));
    bytes += weights.back().bytes();
  } while (dram && bytes < kBeyondCacheBytes);
  const int64_t depth = c.spec.depth, stride = weights[0].padded_rows();
  const std::vector<float> x = random_floats(static_cast<size_t>(rows * depth), 9);
  ActivationBuffer in(rows, depth);
  convert_activations(x.data(), rows, depth, depth, activation_form(c.spec.layout, c.coded), in, pool);
  AlignedBuffer out(static_cast<size_t>(rows * stride) * sizeof(float));
  const double seconds = best_seconds(pool, [&](int i) {
    const MatmulJob job{&weights[static_cast<size_t>(i) % weights.size()], nullptr, out.as<float>(), stride,
                        false};
    matmul(in.view(), {&job, 1}, pool);
  });
  const double ops = 2.0 * static_cast<double>(c.spec.rows * depth * rows);
  fmt::print("{:<7} {}t  {:<16} {:>4}  M {:<3} {:<5} {:>9.1f} us {:>7.1f} GOPS {:>6.1f} GB/s of weights\n",
             isa_name(current_isa()), pool.num_threads(), c.name, c.spec.rows, rows, dram ? "DRAM" : "",
             seconds * 1e6, ops / seconds * 1e-9, static_cast<double>(weights[0].bytes()) / seconds * 1e-9);
}

void bench_conversion(ComputePool& pool) {
  const int64_t rows = 64, depth = 4096;
  const std::vector<float> x = random_floats(static_cast<size_t>(rows * depth), 9);
  ActivationBuffer in(rows, depth);
  const double seconds = best_seconds(
      pool, [&](int) { convert_activations(x.data(), rows, depth, depth, ActivationForm::kInt8, in, pool); });
  fmt::print("{:<7} {}t  int8 conversion of {} x {} floats {:>9.1f} us {:>6.2f} Gfloat/s\n",
             isa_name(current_isa()), pool.num_threads(), rows, depth, seconds * 1e6,
             static_cast<double>(rows * depth) / seconds * 1e-9);
}

struct AttentionCase {
  int heads, kv_heads, head_dim;
  DType dtype;
  int64_t sequences, tokens, context;  // new tokens, and tokens in all, of each sequence
};

// Attention of one layer; with several layers' worth of cache, so that decode reads from DRAM.
void bench_attention(const AttentionCase& c, ComputePool& pool) {
  const int64_t blocks_each = (c.context + kKvBlockTokens - 1) / kKvBlockTokens;
  const int num_blocks = static_cast<int>(blocks_each * c.sequences);
  const size_t layer_bytes =
      kv_block_bytes({1, c.kv_heads, c.head_dim, c.dtype}) * static_cast<size_t>(num_blocks);
  const int layers =
      static_cast<int>(std::max<size_t>(1, c.tokens == 1 ? kBeyondCacheBytes / layer_bytes : 1));
  KvStorage storage({layers, c.kv_heads, c.head_dim, c.dtype}, num_blocks);
  std::memset(storage.layer(0).base, 0x3c, storage.bytes());
  std::vector<BlockId> table(static_cast<size_t>(num_blocks));
  for (size_t i = 0; i < table.size(); ++i) table[i] = BlockId{static_cast<int32_t>(i)};
  std::shuffle(table.begin(), table.end(), std::mt19937(1));
  std::vector<AttentionSequence> sequences;
  for (int64_t s = 0; s < c.sequences; ++s) {
    AttentionSequence sequence;
    sequence.first_token = s * c.tokens;
    sequence.num_tokens = c.tokens;
    sequence.first_position = c.context - c.tokens;
    sequence.block_table = {table.data() + s * blocks_each, static_cast<size_t>(blocks_each)};
    sequences.push_back(sequence);
  }
  const int64_t row = int64_t{c.heads} * c.head_dim, rows = c.sequences * c.tokens;
  const std::vector<float> q = random_floats(static_cast<size_t>(rows * row), 3);
  std::vector<float> out(q.size());
  AttentionParams params;
  params.num_heads = c.heads;
  params.scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim));
  AttentionScratch scratch(rows, c.context, c.heads, c.head_dim, pool.num_threads());
  const double seconds = best_seconds(pool, [&](int i) {
    attention(q.data(), row, sequences, storage.layer(i % layers), params, out.data(), row, scratch, pool);
  });
  double pairs = 0;  // (query, key) pairs of one head
  for (int64_t t = 0; t < c.tokens; ++t)
    pairs += static_cast<double>((c.context - c.tokens + t + 1) * c.sequences);
  const double flops = 4 * pairs * c.heads * c.head_dim;
  fmt::print(
      "{:<7} {}t  attention {}/{} D{} {:<8} {} x {} of {:<5} {:>9.1f} us {:>7.1f} GFLOPS {:>6.1f} GB/s of "
      "KV\n",
      isa_name(current_isa()), pool.num_threads(), c.heads, c.kv_heads, c.head_dim, dtype_name(c.dtype),
      c.sequences, c.tokens, c.context, seconds * 1e6, flops / seconds * 1e-9,
      static_cast<double>(layer_bytes) / seconds * 1e-9);
}

void bench_all(const Options& options, ComputePool& pool) {
  if (options.only != "attention") {
    for (const int64_t size : {1536, 4096}) {
      for (const MatmulCase& c : matmul_cases(size)) {
        for (const int64_t rows : {1, 2, 3, 4, 5, 8, 16, 64, 256}) bench_matmul(c, rows, rows <= 4, pool);
      }
    }
    bench_conversion(pool);
  }
  if (options.only == "matmul") return;
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    bench_attention({28, 4, 128, dtype, 1, 1, 512}, pool);
    bench_attention({28, 4, 128, dtype, 1, 1, 4096}, pool);
    bench_attention({32, 8, 128, dtype, 1, 1, 4096}, pool);
    bench_attention({28, 4, 128, dtype, 16, 1, 1024}, pool);
    bench_attention({28, 4, 128, dtype, 1, 8, 1024}, pool);
    bench_attention({28, 4, 128, dtype, 1, 512, 512}, pool);
    bench_attention({9, 3, 64, dtype, 1, 512, 512}, pool);
  }
}

int run(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view flag = argv[i];
    if (flag == "--isa") options.isa = isa_from_name(argv[i + 1]);
    if (flag == "--threads") options.threads = std::stoi(argv[i + 1]);
    if (flag == "--only") options.only = argv[i + 1];
  }
  for (const Isa isa : supported_isas()) {
    if (options.isa ? isa != *options.isa : isa == Isa::kScalar) continue;
    set_isa(isa);
    for (const int threads : {1, 2}) {
      if (options.threads && threads != *options.threads) continue;
      ComputePool pool(threads);
      bench_all(options, pool);
    }
  }
  return 0;
}

}  // namespace
}  // namespace pagoda::kernels

int main(int argc, char** argv) {
  return pagoda::kernels::run(argc, argv);
}
