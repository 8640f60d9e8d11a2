#include "model/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "kernels/attention.h"
#include "kernels/embedding.h"
#include "kernels/gated_activation.h"
#include "kernels/gated_matmul.h"
#include "kernels/matmul.h"
#include "kernels/norm.h"
#include "kernels/rope.h"
#include "model/weights.h"

namespace pagoda::model {
namespace {

using kernels::ActivationBuffer;
using kernels::ActivationForm;

// A matrix of floats whose rows are 64-byte aligned.
// Random tokens that show which groups hold the outlier channels; their shares hardly change with more.
constexpr int64_t kMeasuredTokens = 64;

struct Rows {
  Rows() = default;
  Rows(int64_t max_rows, int64_t width)
      : stride(round_up(width, kPanelRows)), data(static_cast<size_t>(max_rows * stride) * sizeof(float)) {}
  float* row(int64_t index) noexcept { return data.as<float>() + index * stride; }
  // The first `rows` rows of `width` columns from `column` on.
  kernels::RowsView view(int64_t rows, int64_t width, int64_t column = 0) noexcept {
    return {data.as<float>() + column, rows, width, stride};
  }
  int64_t stride = 0;
  AlignedBuffer data;
};

// Everything a step writes, allocated once.
struct Scratch {
  Rows hidden;     // residual stream
  Rows qkv;        // q, k, v of all tokens
  Rows attention;  // attention output, heads side by side
  Rows block_out;  // output of a block before its post-norm (Gemma); the rows whose logits are wanted
  Rows gate_up;
  ActivationBuffer converted;  // input of the next product, unless that is
  ActivationBuffer gated;      // the input of `down`
  kernels::GatedScratch gated_scratch;
  kernels::AttentionScratch attention_scratch;
  kernels::SharedPrefixes shared_prefixes;
  std::vector<int64_t> positions;    // of every token
  std::vector<int32_t> sequence_of;  // index of its sequence
};

class LlamaDecoder final : public Decoder {
 public:
  LlamaDecoder(const ModelConfig& config, const DecoderOptions& options, DecoderWeights weights,
               ComputePool& pool);

  const ModelConfig& config() const override { return config_; }
  KvShape kv_shape() const override {
    return {config_.num_layers, config_.num_kv_heads, config_.head_dim, options_.kv_dtype};
  }
  int64_t logits_stride() const override { return round_up(config_.vocab_size, kPanelRows); }
  size_t weight_bytes() const override { return weights_.bytes; }
  size_t scratch_bytes() const override {
    return scratch_.hidden.data.size() + scratch_.qkv.data.size() + scratch_.attention.data.size() +
           scratch_.block_out.data.size() + scratch_.gate_up.data.size();
  }
  std::string layout_summary() const override;
  void forward(const ForwardInput& input, KvStorage& kv, float* logits) noexcept override;
  void forward_hidden(const ForwardInput& input, KvStorage& kv, float* rows) noexcept override;
  // Decides which groups of the inputs are wide (model/wide_groups.h); once, before the first step.
  void set_activation_precision();

 private:
  void measure_groups(GroupStatistics& statistics);
  void set_wide_groups(const GroupStatistics& statistics);
  void set_narrow_groups();
  // Converted activations of an input are complete.
  void observe(const void* input, const ActivationBuffer& activations) noexcept {
    if (statistics_ != nullptr) statistics_->observe(input, activations.view());
  }
  kernels::RmsNorm rms_norm(const std::vector<float>& weight) const {
    return {weight.data(), config_.rms_norm_eps};
  }
  void set_positions(const ForwardInput& input) noexcept;
  void run_layers(const ForwardInput& input, KvStorage& kv) noexcept;
  void attention_block(const LayerWeights& layer, int index, const ForwardInput& input,
                       KvStorage& kv) noexcept;
  void finish_qkv(const LayerWeights& layer, const kernels::RopeTable& rope, const ForwardInput& input,
                  const PagedKvView& kv) noexcept;
  void feed_forward_block(const LayerWeights& layer, int64_t num_tokens) noexcept;
  bool gated_in_one_pass(const LayerWeights& layer, int64_t num_tokens) noexcept;
  void project_norm(const Projection& projection, const std::vector<float>& norm, int64_t num_tokens,
                    Rows& out) noexcept;
  void add_to_residual(const Projection& projection, const ActivationBuffer& input,
                       const std::vector<float>& post_norm) noexcept;
  void output_head(const ForwardInput& input, float* logits) noexcept;

  ModelConfig config_;
  DecoderOptions options_;
  DecoderWeights weights_;
  kernels::RopeTable rope_, rope_sliding_;
  Scratch scratch_;
  ComputePool& pool_;
  GroupStatistics* statistics_ = nullptr;  // only while the groups are measured
};

LlamaDecoder::LlamaDecoder(const ModelConfig& config, const DecoderOptions& options, DecoderWeights weights,
                           ComputePool& pool)
    : config_(config), options_(options), weights_(std::move(weights)), pool_(pool) {
  rope_ = kernels::RopeTable(rope_inverse_frequencies(config.rope, config.head_dim), options.max_context);
  if (config.has_rope_sliding) {
    rope_sliding_ = kernels::RopeTable(rope_inverse_frequencies(config.rope_sliding, config.head_dim),
                                       options.max_context);
  }
  const int64_t tokens = options.max_tokens, heads_width = int64_t{config.num_heads} * config.head_dim;
  int64_t qkv_width = 0, gate_up_width = 0;
  for (const auto& layer : weights_.layers) {
    qkv_width = std::max(qkv_width, layer.qkv.width());
    gate_up_width = std::max(gate_up_width, layer.gate_up.width());
  }
  scratch_.hidden = Rows(tokens, config.hidden_size);
  scratch_.qkv = Rows(tokens, qkv_width);
  scratch_.attention = Rows(tokens, heads_width);
  scratch_.block_out = Rows(std::max(tokens, options.max_logit_rows), config.hidden_size);
  scratch_.gate_up = Rows(tokens, gate_up_width);
  scratch_.converted =
      ActivationBuffer(std::max(tokens, options.max_logit_rows),
                       std::max({config.hidden_size, heads_width, config.intermediate_size}));
  scratch_.gated = ActivationBuffer(tokens, config.intermediate_size);
  scratch_.gated_scratch = kernels::GatedScratch(tokens, pool.num_threads());
  scratch_.attention_scratch = kernels::AttentionScratch(tokens, options.max_context, config.num_heads,
                                                         config.head_dim, pool.num_threads());
  scratch_.shared_prefixes = kernels::SharedPrefixes(tokens, config.num_heads, config.head_dim);
  scratch_.positions.resize(static_cast<size_t>(tokens));
  scratch_.sequence_of.resize(static_cast<size_t>(tokens));
}

std::string LlamaDecoder::layout_summary() const {
  std::map<std::string, int> counts;
  int64_t groups = 0, wide = 0;
  const auto count = [&](const PackedWeight& weight) {
    const bool coded = kernels::activation_form(weight.layout()) == ActivationForm::kCoded;
    counts[coded ? fmt::format("{} g{}", weight_layout_name(weight.layout()), weight.spec().group_size)
                 : std::string(weight_layout_name(weight.layout()))]++;
  };
  count(weights_.embedding);
  for (const auto& layer : weights_.layers) {
    for (const Projection* p : {&layer.qkv, &layer.attention_out, &layer.gate_up, &layer.down}) {
      for (const auto& weight : p->weights()) count(weight);
      if (p->forms().front() != ActivationForm::kCoded) continue;
      groups += p->input().wide->num_groups();
      wide += p->input().wide->count();
    }
  }
  for (const auto& weight : weights_.head.weights()) count(weight);
  std::string text;
  for (const auto& [layout, n] : counts) text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", layout, n);
  if (groups == 0) return text;
  return fmt::format("{}; {} % of the activations in 16 bits, the rest in 8", text, 100 * wide / groups);
}

void LlamaDecoder::forward(const ForwardInput& input, KvStorage& kv, float* logits) noexcept {
  PAGODA_CHECK(static_cast<int64_t>(input.logit_rows.size()) <= options_.max_logit_rows,
               "{} logit rows of {}", input.logit_rows.size(), options_.max_logit_rows);
  run_layers(input, kv);
  if (!input.logit_rows.empty()) output_head(input, logits);
}

void LlamaDecoder::forward_hidden(const ForwardInput& input, KvStorage& kv, float* rows) noexcept {
  run_layers(input, kv);
  for (const int64_t row : input.logit_rows) {
    kernels::rms_norm_row(scratch_.hidden.row(row), rms_norm(weights_.final_norm), config_.hidden_size, rows);
    rows += config_.hidden_size;
  }
}

void LlamaDecoder::run_layers(const ForwardInput& input, KvStorage& kv) noexcept {
  const auto num_tokens = static_cast<int64_t>(input.tokens.size());
  PAGODA_CHECK(num_tokens <= options_.max_tokens, "{} tokens of {}", num_tokens, options_.max_tokens);
  set_positions(input);
  scratch_.shared_prefixes.find(input.sequences);
  kernels::embed(weights_.embedding, input.tokens, config_.embedding_scale,
                 scratch_.hidden.view(num_tokens, config_.hidden_size), pool_);
  for (int index = 0; index < config_.num_layers; ++index) {
    const LayerWeights& layer = weights_.layers[static_cast<size_t>(index)];
    attention_block(layer, index, input, kv);
    feed_forward_block(layer, num_tokens);
  }
}

void LlamaDecoder::set_positions(const ForwardInput& input) noexcept {
  for (size_t index = 0; index < input.sequences.size(); ++index) {
    const kernels::AttentionSequence& sequence = input.sequences[index];
    PAGODA_CHECK(sequence.first_position + sequence.num_tokens <= options_.max_context, "position {} of {}",
                 sequence.first_position + sequence.num_tokens, options_.max_context);
    for (int64_t i = 0; i < sequence.num_tokens; ++i) {
      const auto token = static_cast<size_t>(sequence.first_token + i);
      scratch_.positions[token] = sequence.first_position + i;
      scratch_.sequence_of[token] = static_cast<int32_t>(index);
    }
  }
}

// out = projection(rms_norm(hidden)).
void LlamaDecoder::project_norm(const Projection& projection, const std::vector<float>& norm,
                                int64_t num_tokens, Rows& out) noexcept {
  for (const ActivationForm form : projection.forms()) {
    kernels::rms_norm_convert(scratch_.hidden.view(num_tokens, config_.hidden_size), rms_norm(norm),
                              projection.input(form), scratch_.converted, pool_);
    observe(&projection, scratch_.converted);
    projection.run(scratch_.converted.view(), out.row(0), out.stride, false, pool_);
  }
}

// hidden += projection(input), with the norm in between where the family has one.
void LlamaDecoder::add_to_residual(const Projection& projection, const ActivationBuffer& input,
                                   const std::vector<float>& post_norm) noexcept {
  observe(&projection, input);
  const int64_t num_tokens = input.view().rows;
  if (post_norm.empty()) {
    projection.run(input.view(), scratch_.hidden.row(0), scratch_.hidden.stride, true, pool_);
    return;
  }
  Rows& out = scratch_.block_out;
  projection.run(input.view(), out.row(0), out.stride, false, pool_);
  const int64_t size = config_.hidden_size;
  pool_.run(static_cast<int>(num_tokens), [&](int token, int) {
    float* const y = out.row(token);
    float* const hidden = scratch_.hidden.row(token);
    kernels::rms_norm_row(y, rms_norm(post_norm), size, y);
    for (int64_t i = 0; i < size; ++i) hidden[i] += y[i];
  });
}

void LlamaDecoder::attention_block(const LayerWeights& layer, int index, const ForwardInput& input,
                                   KvStorage& kv) noexcept {
  const auto num_tokens = static_cast<int64_t>(input.tokens.size());
  const int64_t window = config_.layer_window[static_cast<size_t>(index)];
  Rows& qkv = scratch_.qkv;
  project_norm(layer.qkv, layer.attention_norm, num_tokens, qkv);
  const PagedKvView view = kv.layer(index);
  finish_qkv(layer, window > 0 && config_.has_rope_sliding ? rope_sliding_ : rope_, input, view);
  const int64_t q_width = int64_t{config_.num_heads} * config_.head_dim;
  kernels::AttentionParams params;
  params.num_heads = config_.num_heads;
  params.scale = config_.attention_scale;
  params.window = window;
  const bool converts = config_.head_dim % kernels::kActivationGroup == 0;
  kernels::AttentionOutput out;
  out.rows = scratch_.attention.view(num_tokens, q_width);
  if (converts) {
    out.converted = &scratch_.converted;
    scratch_.converted.begin(layer.attention_out.input(), num_tokens, q_width);
  }
  kernels::attention(
      {qkv.view(num_tokens, q_width, layer.qkv.offset(0)), input.sequences, view, &scratch_.shared_prefixes},
      params, out, scratch_.attention_scratch, pool_);
  if (!converts)
    kernels::convert_activations(out.rows, layer.attention_out.input(), scratch_.converted, pool_);
  add_to_residual(layer.attention_out, scratch_.converted, layer.post_attention_norm);
}

// Per-head norms (Qwen 3, Gemma 3) and RoPE on q and k, in place; k and v go to the cache.
void LlamaDecoder::finish_qkv(const LayerWeights& layer, const kernels::RopeTable& rope,
                              const ForwardInput& input, const PagedKvView& kv) noexcept {
  const auto num_tokens = static_cast<int64_t>(input.tokens.size());
  // A row costs a few microseconds: 16 rows are a chunk worth the join.
  constexpr int64_t kRowsPerChunk = 16;
  const auto chunks = static_cast<int>((num_tokens + kRowsPerChunk - 1) / kRowsPerChunk);
  const auto heads = [&](float* x, int count, const std::vector<float>& norm, int64_t position) {
    for (int head = 0; head < count; ++head, x += config_.head_dim) {
      if (!norm.empty()) kernels::rms_norm_row(x, rms_norm(norm), config_.head_dim, x);
      kernels::rope_row(x, rope, position);
    }
  };
  pool_.run(chunks, [&](int chunk, int) {
    const int64_t end = std::min(num_tokens, (chunk + 1) * kRowsPerChunk);
    for (int64_t token = chunk * kRowsPerChunk; token < end; ++token) {
      float* const row = scratch_.qkv.row(token);
      const int64_t position = scratch_.positions[static_cast<size_t>(token)];
      heads(row + layer.qkv.offset(0), config_.num_heads, layer.q_norm, position);
      heads(row + layer.qkv.offset(1), config_.num_kv_heads, layer.k_norm, position);
      const auto sequence = static_cast<size_t>(scratch_.sequence_of[static_cast<size_t>(token)]);
      kernels::write_kv_token({row + layer.qkv.offset(1), row + layer.qkv.offset(2)}, position,
                              input.sequences[sequence].block_table, kv);
    }
  });
}

void LlamaDecoder::feed_forward_block(const LayerWeights& layer, int64_t num_tokens) noexcept {
  if (!gated_in_one_pass(layer, num_tokens)) {
    Rows& gate_up = scratch_.gate_up;
    project_norm(layer.gate_up, layer.feed_forward_norm, num_tokens, gate_up);
    const int64_t width = config_.intermediate_size;
    kernels::gated_activation_convert(config_.activation,
                                      {gate_up.view(num_tokens, width, layer.gate_up.offset(0)),
                                       gate_up.view(num_tokens, width, layer.gate_up.offset(1))},
                                      layer.down.input(), scratch_.gated, pool_);
  }
  add_to_residual(layer.down, scratch_.gated, layer.post_feed_forward_norm);
}

// False if the weights don't allow it: gate and up in different forms, or not in whole panels.
bool LlamaDecoder::gated_in_one_pass(const LayerWeights& layer, int64_t num_tokens) noexcept {
  kernels::GatedProduct product;
  product.gate = layer.gate_up.panels(0);
  product.up = layer.gate_up.panels(1);
  product.size = config_.intermediate_size;
  product.activation = config_.activation;
  if (product.gate.weight == nullptr || product.up.weight == nullptr || layer.gate_up.forms().size() != 1 ||
      product.size % kPanelRows != 0) {
    return false;
  }
  kernels::rms_norm_convert(scratch_.hidden.view(num_tokens, config_.hidden_size),
                            rms_norm(layer.feed_forward_norm), layer.gate_up.input(), scratch_.converted,
                            pool_);
  observe(&layer.gate_up, scratch_.converted);
  scratch_.gated.begin(layer.down.input(), num_tokens, product.size);
  kernels::gated_matmul(scratch_.converted.view(), product, scratch_.gated, scratch_.gated_scratch, pool_);
  return true;
}

void LlamaDecoder::output_head(const ForwardInput& input, float* logits) noexcept {
  const auto num_rows = static_cast<int64_t>(input.logit_rows.size());
  Rows& rows = scratch_.block_out;
  for (int64_t i = 0; i < num_rows; ++i) {
    std::copy_n(scratch_.hidden.row(input.logit_rows[static_cast<size_t>(i)]), config_.hidden_size,
                rows.row(i));
  }
  const auto normed = [&](const kernels::ActivationSpec& spec) {
    kernels::rms_norm_convert(rows.view(num_rows, config_.hidden_size), rms_norm(weights_.final_norm), spec,
                              scratch_.converted, pool_);
  };
  if (config_.tied_embeddings) {
    normed({kernels::activation_form(weights_.embedding.layout()), &weights_.tied_head_wide});
    kernels::MatmulJob job;
    job.weight = &weights_.embedding;
    job.out = logits;
    job.out_stride = logits_stride();
    kernels::matmul(scratch_.converted.view(), std::span(&job, 1), pool_);
    return;
  }
  normed(weights_.head.input());
  weights_.head.run(scratch_.converted.view(), logits, logits_stride(), false, pool_);
}

void LlamaDecoder::set_activation_precision() {
  if (options_.activation_precision == ActivationPrecision::kInt16) return;  // what load() left
  if (options_.activation_precision == ActivationPrecision::kInt8) return set_narrow_groups();
  GroupStatistics statistics;
  measure_groups(statistics);
  set_wide_groups(statistics);
}

// Runs random tokens and collects what the inputs of all projections look like. The limits of a step must not
// show in the result: a server with another step budget would answer with other tokens.
void LlamaDecoder::measure_groups(GroupStatistics& statistics) {
  constexpr uint64_t kSeed = 1;
  std::vector<TokenId> tokens;
  for (int64_t i = 0; i < kMeasuredTokens; ++i) {
    const double draw = uniform01(kSeed, 0, static_cast<uint64_t>(i));
    tokens.push_back(TokenId{static_cast<int32_t>(draw * static_cast<double>(config_.vocab_size))});
  }
  std::vector<BlockId> table;
  for (int32_t block = 0; block * kKvBlockTokens < kMeasuredTokens; ++block) table.push_back(BlockId{block});
  KvStorage kv(kv_shape(), static_cast<int>(table.size()));
  kernels::AttentionSequence sequence;
  sequence.block_table = table;
  statistics_ = &statistics;
  for (int64_t done = 0; done < kMeasuredTokens; done += sequence.num_tokens) {
    sequence.first_position = done;
    sequence.num_tokens = std::min(kMeasuredTokens - done, options_.max_tokens);
    const auto chunk = std::span<const TokenId>(tokens).subspan(static_cast<size_t>(done),
                                                                static_cast<size_t>(sequence.num_tokens));
    forward({chunk, std::span(&sequence, 1), {}}, kv, nullptr);
  }
  statistics_ = nullptr;
}

void LlamaDecoder::set_wide_groups(const GroupStatistics& statistics) {
  for (size_t index = 0; index < weights_.layers.size(); ++index) {
    LayerWeights& layer = weights_.layers[index];
    const WideFractions fractions =
        wide_fractions(static_cast<int>(index), config_.num_layers, config_.hidden_size);
    const auto choose = [&](Projection& projection, double fraction) {
      projection.set_wide(statistics.choose(&projection, projection.depth(), fraction));
    };
    choose(layer.qkv, fractions.qkv);
    choose(layer.attention_out, fractions.attention_out);
    choose(layer.gate_up, fractions.gate_up);
    choose(layer.down, fractions.down);
  }
}

void LlamaDecoder::set_narrow_groups() {
  const auto narrow = [](Projection& projection) {
    projection.set_wide(kernels::WideGroups::none(projection.depth()));
  };
  for (LayerWeights& layer : weights_.layers) {
    for (Projection* p : {&layer.qkv, &layer.attention_out, &layer.gate_up, &layer.down}) narrow(*p);
  }
  weights_.tied_head_wide = kernels::WideGroups::none(config_.hidden_size);
  if (!config_.tied_embeddings) narrow(weights_.head);
}

}  // namespace

Result<std::unique_ptr<Decoder>> load_decoder(const Checkpoint& checkpoint, const DecoderOptions& options,
                                              ComputePool& pool) {
  PAGODA_CHECK(options.max_context > 0 && options.max_tokens > 0);
  auto weights = PAGODA_TRY(load_decoder_weights(checkpoint, options.precision, pool));
  DecoderOptions roomy = options;
  roomy.max_context = std::max(options.max_context, kMeasuredTokens);
  auto decoder = std::make_unique<LlamaDecoder>(checkpoint.config, roomy, std::move(weights), pool);
  decoder->set_activation_precision();
  return std::unique_ptr<Decoder>(std::move(decoder));
}

}  // namespace pagoda::model
