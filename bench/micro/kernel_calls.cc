#include "micro/kernel_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>

#include "kernels/activations.h"
#include "kernels/attention.h"
#include "kernels/embedding.h"
#include "kernels/gated_activation.h"
#include "kernels/logits.h"
#include "kernels/matmul.h"
#include "kernels/norm.h"
#include "kernels/rope.h"
#include "machine/peaks.h"

namespace pagoda::bench {
namespace {

using kernels::ActivationBuffer;
using kernels::ActivationForm;

constexpr float kEpsilon = 1e-6f;

// Weights and caches that are walked through are three times the last-level cache: they come from memory, as
// in a model.
size_t beyond_cache_bytes() {
  return 3 * last_level_cache_bytes();
}

std::vector<float> random_floats(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 1000.0f;
  return values;
}

PackedWeight make_weight(const PackedWeightSpec& spec, const PanelSource& source) {
  PackedWeight weight(spec);
  for (int64_t panel = 0; panel < weight.num_panels(); ++panel) weight.pack_panel(panel, source);
  return weight;
}

// As many equal matrices as the caches can't hold.
std::vector<PackedWeight> make_weights(const PackedWeightSpec& spec) {
  const int64_t count = kPanelRows * spec.depth;
  std::mt19937 random(1);
  std::vector<uint8_t> codes(static_cast<size_t>(count));
  for (auto& code : codes) code = static_cast<uint8_t>(random() & ((1u << code_bits(spec.layout)) - 1));
  const std::vector<float> values = random_floats(count, 1);
  PanelSource source;
  source.codes = codes.data();
  source.code_stride = spec.depth;
  source.scales = source.offsets = source.values = values.data();
  source.value_stride = spec.depth;
  std::vector<PackedWeight> weights;
  for (size_t bytes = 0; bytes < beyond_cache_bytes(); bytes += weights.back().bytes())
    weights.push_back(make_weight(spec, source));
  return weights;
}

struct Layout {
  std::string name;
  PackedWeightSpec spec;  // without rows and depth
};

std::vector<Layout> layouts() {
  PackedWeightSpec w4, w4_offsets, w5, w6, w8, bf16;
  w4.layout = w4_offsets.layout = WeightLayout::kW4;
  w5.layout = WeightLayout::kW5;
  w6.layout = WeightLayout::kW6;
  w8.layout = WeightLayout::kW8;
  bf16.layout = WeightLayout::kBF16;
  w4.zero_point = 8;
  w4_offsets.has_offsets = true;
  w5.zero_point = 16;
  w6.zero_point = 32;
  w6.group_size = 16;
  w8.zero_point = 128;
  return {{"w4 g32", w4}, {"w4 g32 offsets", w4_offsets}, {"w5 g32", w5}, {"w6 g16", w6}, {"w8 g32", w8},
          {"bf16", bf16}};
}

// What a row of activations is converted to: the precision of coded layouts is chosen group by group.
enum class Precision : uint8_t { kInt8, kInt16, kMixed, kBF16 };

constexpr int64_t kMixedWideEvery = 8;  // of kMixed: each eighth group has 16 bits

const char* precision_name(Precision precision) {
  switch (precision) {
    case Precision::kInt8:
      return "int8";
    case Precision::kInt16:
      return "int16";
    case Precision::kMixed:
      return "mixed";
    case Precision::kBF16:
      break;
  }
  return "bf16";
}

// int8 products for each weight; a wide group is multiplied twice.
double products_each(Precision precision) {
  if (precision == Precision::kInt16) return 2;
  return precision == Precision::kMixed ? 1 + 1.0 / static_cast<double>(kMixedWideEvery) : 1;
}

kernels::WideGroups wide_groups(Precision precision, int64_t depth) {
  std::vector<uint8_t> flags(static_cast<size_t>(depth / kernels::kActivationGroup));
  for (size_t group = 0; group < flags.size(); ++group) {
    const bool mixed = precision == Precision::kMixed && group % kMixedWideEvery == 0;
    flags[group] = precision == Precision::kInt16 || mixed ? 1 : 0;
  }
  return kernels::WideGroups(std::move(flags));
}

// Activations of one precision, and what they need to stay valid.
struct ConvertedRows {
  ConvertedRows(Precision precision, int64_t rows, int64_t depth)
      : wide(wide_groups(precision, depth)), buffer(rows, depth) {
    spec.form = precision == Precision::kBF16 ? ActivationForm::kBF16 : ActivationForm::kCoded;
    if (spec.form == ActivationForm::kCoded) spec.wide = &wide;
  }
  ConvertedRows(const ConvertedRows&) = delete;
  ConvertedRows& operator=(const ConvertedRows&) = delete;
  kernels::WideGroups wide;
  kernels::ActivationSpec spec;
  ActivationBuffer buffer;
};

std::vector<int64_t> row_counts(const OpChoice& choice) {
  if (choice.quick) return {1, 4, 16, 256};
  return {1, 2, 4, 8, 16, 64, 256};
}

struct MatmulState {
  MatmulState(Precision precision, int64_t rows, const PackedWeight& weight)
      : in(precision, rows, weight.depth()),
        out(static_cast<size_t>(rows * weight.padded_rows()) * sizeof(float)),
        stride(weight.padded_rows()) {}
  ConvertedRows in;
  AlignedBuffer out;
  int64_t stride;
};

Op matmul_op(const std::string& name, std::shared_ptr<const std::vector<PackedWeight>> weights, int64_t rows,
             Precision precision) {
  const PackedWeight& first = weights->front();
  auto state = std::make_shared<MatmulState>(precision, rows, first);
  const std::vector<float> x = random_floats(rows * first.depth(), 9);
  ComputePool alone(1);
  kernels::convert_activations({x.data(), rows, first.depth(), first.depth()}, state->in.spec,
                               state->in.buffer, alone);
  Op op;
  op.group = "matmul";
  op.name = fmt::format("matmul {} {} {}x{} M{}", name, precision_name(precision), first.rows(),
                        first.depth(), rows);
  op.operations = 2.0 * static_cast<double>(first.rows() * first.depth() * rows);
  op.executed = op.operations * products_each(precision);
  op.unit = precision == Precision::kBF16 ? Unit::kBF16 : Unit::kInt8;
  op.bytes = static_cast<double>(first.bytes());
  op.call = [weights, state](int i, ComputePool& pool) {
    kernels::MatmulJob job;
    job.weight = &(*weights)[static_cast<size_t>(i) % weights->size()];
    job.out = state->out.as<float>();
    job.out_stride = state->stride;
    kernels::matmul(state->in.buffer.view(), {&job, 1}, pool);
  };
  return op;
}

std::vector<Op> matmul_ops(const Layout& layout, int64_t rows, int64_t depth, const OpChoice& choice) {
  PackedWeightSpec spec = layout.spec;
  spec.rows = rows;
  spec.depth = depth;
  auto weights = std::make_shared<const std::vector<PackedWeight>>(make_weights(spec));
  std::vector<Precision> precisions{Precision::kInt8, Precision::kInt16};
  if (spec.has_offsets) precisions.push_back(Precision::kMixed);
  if (spec.layout == WeightLayout::kBF16) precisions = {Precision::kBF16};
  std::vector<Op> ops;
  for (const Precision precision : precisions) {
    for (const int64_t m : row_counts(choice)) ops.push_back(matmul_op(layout.name, weights, m, precision));
  }
  return ops;
}

struct AttentionCase {
  DType dtype = DType::kBF16;
  int64_t sequences = 1, tokens = 1, context = 1;  // new tokens, and tokens in all, of each sequence
};

struct AttentionState {
  AttentionState(const ModelShape& shape, const AttentionCase& c, const OpChoice& choice);
  ModelShape shape;
  int layers = 1;
  KvStorage storage;
  std::vector<BlockId> table;
  std::vector<kernels::AttentionSequence> sequences;
  int64_t q_row = 0, kv_row = 0;
  std::vector<float> q, kv, out;
  kernels::AttentionParams params;
  kernels::AttentionScratch scratch;
  size_t layer_bytes = 0;
};

// Decoding walks through several layers' worth of cache, so that it reads from memory.
AttentionState::AttentionState(const ModelShape& model, const AttentionCase& c, const OpChoice& choice)
    : shape(model) {
  const int64_t blocks_each = (c.context + kKvBlockTokens - 1) / kKvBlockTokens;
  const auto num_blocks = static_cast<int>(blocks_each * c.sequences);
  layer_bytes =
      kv_block_bytes({1, shape.kv_heads, shape.head_dim, c.dtype}) * static_cast<size_t>(num_blocks);
  if (c.tokens == 1) layers = static_cast<int>(std::max<size_t>(1, beyond_cache_bytes() / layer_bytes));
  storage = KvStorage({layers, shape.kv_heads, shape.head_dim, c.dtype}, num_blocks);
  std::memset(storage.layer(0).base, 0x3c, storage.bytes());
  table.resize(static_cast<size_t>(num_blocks));
  for (size_t i = 0; i < table.size(); ++i) table[i] = BlockId{static_cast<int32_t>(i)};
  std::shuffle(table.begin(), table.end(), std::mt19937(1));
  for (int64_t s = 0; s < c.sequences; ++s) {
    kernels::AttentionSequence sequence;
    sequence.first_token = s * c.tokens;
    sequence.num_tokens = c.tokens;
    sequence.first_position = c.context - c.tokens;
    sequence.block_table = {table.data() + s * blocks_each, static_cast<size_t>(blocks_each)};
    sequences.push_back(sequence);
  }
  q_row = int64_t{shape.heads} * shape.head_dim;
  kv_row = int64_t{shape.kv_heads} * shape.head_dim;
  const int64_t rows = c.sequences * c.tokens;
  q = random_floats(rows * q_row, 3);
  kv = random_floats(rows * kv_row, 4);
  out.resize(q.size());
  params.num_heads = shape.heads;
  params.scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
  scratch = kernels::AttentionScratch(rows, c.context, shape.heads, shape.head_dim, choice.max_threads);
}

std::vector<Op> attention_ops(const ModelShape& shape, const AttentionCase& c, const OpChoice& choice) {
  auto state = std::make_shared<AttentionState>(shape, c, choice);
  double pairs = 0;  // (query, key) pairs of one head
  for (int64_t t = 0; t < c.tokens; ++t)
    pairs += static_cast<double>((c.context - c.tokens + t + 1) * c.sequences);
  const std::string name = fmt::format("{} {}/{} D{} {} x {} of {}", dtype_name(c.dtype), shape.heads,
                                       shape.kv_heads, shape.head_dim, c.sequences, c.tokens, c.context);
  Op op;
  op.group = "attention";
  op.name = "attention " + name;
  op.operations = op.executed = 4 * pairs * shape.heads * shape.head_dim;
  // int8 caches multiply 16-bit codes, about as many at a time as bf16.
  op.unit = c.dtype == DType::kBF16 || c.dtype == DType::kI8 ? Unit::kBF16 : Unit::kF32;
  op.bytes = static_cast<double>(state->layer_bytes);
  op.call = [state](int i, ComputePool& pool) {
    const int64_t rows = state->sequences.back().first_token + state->sequences.back().num_tokens;
    const kernels::ConstRowsView q(state->q.data(), rows, state->q_row, state->q_row);
    const kernels::RowsView out{state->out.data(), rows, state->q_row, state->q_row};
    kernels::attention({q, state->sequences, state->storage.layer(i % state->layers)}, state->params, {out},
                       state->scratch, pool);
  };
  Op write;
  write.group = "kv";
  write.name = "write_kv " + name;
  const auto rows = static_cast<double>(c.sequences * c.tokens);
  const auto width = static_cast<double>(dtype_bytes(c.dtype));
  write.bytes = rows * static_cast<double>(state->kv_row) * 2 * (sizeof(float) + width);
  write.source = Source::kL2;
  write.call = [state](int i, ComputePool& pool) {
    const auto count = static_cast<int64_t>(state->kv.size()) / state->kv_row;
    const kernels::ConstRowsView kv(state->kv.data(), count, state->kv_row, state->kv_row);
    kernels::write_kv(kv, kv, state->sequences, state->storage.layer(i % state->layers), pool);
  };
  return {op, write};
}

// Bytes that one row of activations takes.
double row_bytes(Precision precision, int64_t columns) {
  const auto n = static_cast<double>(columns);
  if (precision == Precision::kBF16) return n * 2;
  return n * (products_each(precision) + 8.0 / 32 + 4.0 / 16);  // codes; scales and sums
}

struct RowsState {
  RowsState(Precision precision, int64_t rows, int64_t columns, int inputs)
      : x(random_floats(rows * columns * inputs, 3)),
        weight(random_floats(columns, 4)),
        out(precision, rows, columns) {}
  std::vector<float> x, weight;
  ConvertedRows out;
};

Op row_op(const std::string& op_name, Precision precision, int64_t rows, int64_t columns, int inputs) {
  Op op;
  op.group = "rows";
  op.name = fmt::format("{} {} {} M{}", op_name, precision_name(precision), columns, rows);
  op.bytes = static_cast<double>(rows) *
             (row_bytes(precision, columns) + static_cast<double>(columns) * inputs * sizeof(float));
  op.source = Source::kL2;
  return op;
}

// The passes between two matmuls, each ending in the form that the next one multiplies with.
std::vector<Op> row_ops_of(const ModelShape& shape, Precision precision, int64_t rows) {
  Op norm = row_op("norm", precision, rows, shape.hidden, 1);
  Op quantise = row_op("quantise", precision, rows, shape.hidden, 1);
  Op gate = row_op("gate", precision, rows, shape.intermediate, 2);
  auto state = std::make_shared<RowsState>(precision, rows, shape.hidden, 1);
  norm.call = [state, rows, size = shape.hidden](int, ComputePool& pool) {
    kernels::norm_convert({state->x.data(), rows, size, size},
                          {kernels::NormKind::kRms, kEpsilon, state->weight.data()}, state->out.spec,
                          state->out.buffer, pool);
  };
  quantise.call = [state, rows, size = shape.hidden](int, ComputePool& pool) {
    kernels::convert_activations({state->x.data(), rows, size, size}, state->out.spec, state->out.buffer,
                                 pool);
  };
  auto gate_state = std::make_shared<RowsState>(precision, rows, shape.intermediate, 2);
  gate.call = [state = gate_state, rows, size = shape.intermediate](int, ComputePool& pool) {
    const float* x = state->x.data();
    const kernels::GateAndUp both{{x, rows, size, 2 * size}, {x + size, rows, size, 2 * size}};
    kernels::gated_activation_convert(kernels::GatedActivation::kSilu, both, state->out.spec,
                                      state->out.buffer, pool);
  };
  return {norm, gate, quantise};
}

std::vector<Op> row_ops(const ModelShape& shape, const OpChoice& choice) {
  std::vector<Op> ops;
  for (const Precision precision : {Precision::kInt8, Precision::kInt16, Precision::kBF16}) {
    for (const int64_t rows :
         choice.quick ? std::vector<int64_t>{1, 256} : std::vector<int64_t>{1, 16, 256}) {
      for (Op& op : row_ops_of(shape, precision, rows)) ops.push_back(std::move(op));
    }
  }
  return ops;
}

struct SamplingState {
  explicit SamplingState(int64_t vocab) : logits(random_floats(vocab, 5)), scratch(logits) {}
  std::vector<float> logits, scratch;
  std::vector<int32_t> ids = std::vector<int32_t>(64);
  std::vector<float> values = std::vector<float>(64);
  volatile double result = 0;  // keeps the calls
};

// What the sampler does to one row; these run on the calling thread alone.
std::vector<Op> sampling_ops(const ModelShape& shape) {
  auto state = std::make_shared<SamplingState>(shape.vocab);
  const auto make = [&](const std::string& name, double bytes_per_entry, std::function<void()> call) {
    Op op;
    op.group = "sampling";
    op.name = fmt::format("{} {}", name, shape.vocab);
    op.bytes = static_cast<double>(shape.vocab) * bytes_per_entry;
    op.source = Source::kL2;
    op.call = [call = std::move(call)](int, ComputePool&) { call(); };
    return op;
  };
  return {make("argmax", 4, [state] { state->result = static_cast<double>(kernels::argmax(state->logits)); }),
          make("top_k 40", 4,
               [state] {
                 state->result =
                     static_cast<double>(kernels::top_k(state->logits, 40, state->ids, state->values));
               }),
          make("log_sum_exp", 4, [state] { state->result = kernels::log_sum_exp(state->logits); }),
          make("weigh", 8, [state] {
            state->result = kernels::weigh(state->logits, {1.0f, 0.8f}, state->scratch);
          })};
}

struct PositionState {
  PositionState(const ModelShape& shape, int64_t rows, int64_t context)
      : table(std::vector<double>(static_cast<size_t>(shape.head_dim / 2), 0.01), context),
        x(random_floats(rows * shape.heads * shape.head_dim, 6)) {}
  kernels::RopeTable table;
  std::vector<float> x;
};

std::vector<Op> rope_ops(const ModelShape& shape) {
  constexpr int64_t kRows = 16, kContext = 2048;
  auto state = std::make_shared<PositionState>(shape, kRows, kContext);
  Op op;
  op.group = "rope";
  op.name = fmt::format("rope {} heads D{} M{}", shape.heads, shape.head_dim, kRows);
  op.bytes = static_cast<double>(kRows) * shape.heads * shape.head_dim * 2 * sizeof(float);
  op.source = Source::kL2;
  op.call = [state, heads = int64_t{shape.heads}, dim = int64_t{shape.head_dim}](int, ComputePool&) {
    for (int64_t head = 0; head < kRows * heads; ++head)
      kernels::rope_row(state->x.data() + head * dim, state->table, 1000 + head / heads);
  };
  return {op};
}

std::vector<AttentionCase> attention_cases(const ModelShape& shape, const OpChoice& choice) {
  std::vector<AttentionCase> cases;
  const auto add = [&](DType dtype, int64_t sequences, int64_t tokens, int64_t context) {
    cases.push_back({dtype, sequences, tokens, context});
  };
  add(DType::kBF16, 1, 1, 512);
  add(DType::kBF16, 16, 1, 1024);
  add(DType::kBF16, 1, 256, 512);
  if (choice.quick) return cases;
  add(DType::kBF16, 1, 1, 4096);
  add(DType::kBF16, 1, 8, 1024);
  add(DType::kBF16, 1, 256, 2048);
  add(DType::kI8, 1, 1, 4096);
  add(DType::kI8, 16, 1, 1024);
  add(DType::kI8, 1, 256, 2048);
  add(DType::kF16, 1, 1, 4096);
  if (shape.name == "7b") {
    add(DType::kF32, 1, 1, 4096);
    add(DType::kF32, 1, 256, 512);
  }
  return cases;
}

}  // namespace

const std::vector<ModelShape>& model_shapes() {
  static const std::vector<ModelShape> shapes = {{"smollm2-135m", 576, 1536, 49152, 9, 3, 64},
                                                 {"0.5b", 896, 4864, 151936, 14, 2, 64},
                                                 {"1.5b", 1536, 8960, 151936, 12, 2, 128},
                                                 {"7b", 3584, 18944, 152064, 28, 4, 128}};
  return shapes;
}

std::vector<OpMaker> op_makers(const ModelShape& shape, const OpChoice& choice) {
  std::vector<OpMaker> makers;
  for (const Layout& layout : layouts()) {  // up, down
    makers.push_back([=] { return matmul_ops(layout, shape.intermediate, shape.hidden, choice); });
    makers.push_back([=] { return matmul_ops(layout, shape.hidden, shape.intermediate, choice); });
  }
  for (const AttentionCase& c : attention_cases(shape, choice))
    makers.push_back([=] { return attention_ops(shape, c, choice); });
  makers.push_back([=] { return row_ops(shape, choice); });
  makers.push_back([=] { return sampling_ops(shape); });
  makers.push_back([=] { return rope_ops(shape); });
  return makers;
}

}  // namespace pagoda::bench
