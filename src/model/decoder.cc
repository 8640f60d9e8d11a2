#include "model/decoder.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "kernels/embedding.h"
#include "kernels/logit_cap.h"
#include "kernels/matmul.h"
#include "kernels/norm.h"
#include "model/attention_block.h"
#include "model/decoder_weights.h"
#include "model/feed_forward.h"
#include "model/residual_stream.h"

namespace pagoda::model {
namespace {

// Random tokens that show which groups hold the outlier channels; their shares hardly change with more.
constexpr int64_t kMeasuredTokens = 64;
constexpr int kMeasuredBlocks = kMeasuredTokens / kKvBlockTokens;

class LayeredDecoder final : public Decoder {
 public:
  LayeredDecoder(const ModelConfig& config, const DecoderOptions& options, DecoderWeights weights,
                 ComputePool& pool);

  const ModelConfig& config() const override { return config_; }
  KvShape kv_shape() const override {
    return {config_.num_layers, config_.num_kv_heads, config_.head_dim, options_.kv_dtype};
  }
  int64_t logits_stride() const override { return round_up(config_.vocab_size, kPanelRows); }
  size_t weight_bytes() const override { return weights_.bytes; }
  size_t scratch_bytes() const override {
    return stream_.scratch_bytes() + attention_.scratch_bytes() + feed_forward_.scratch_bytes();
  }
  std::string layout_summary() const override { return weights_.layout_summary(); }
  void forward(const ForwardInput& input, KvStorage& kv, float* logits) noexcept override;
  void forward_hidden(const ForwardInput& input, KvStorage& kv, float* rows) noexcept override;
  // Decides which groups of the inputs are wide (model/wide_groups.h); once, before the first step.
  void set_activation_precision();
  // Measures what keys are divided by (model/key_balance.h); once, after that.
  void balance_keys();

 private:
  void run_random_tokens(KvStorage& kv) noexcept;
  void set_wide_groups(const GroupStatistics& statistics);
  void set_narrow_groups();
  void run_layers(const ForwardInput& input, KvStorage& kv) noexcept;
  void add_positions() noexcept;
  void output_head(const ForwardInput& input, float* logits) noexcept;

  ModelConfig config_;
  DecoderOptions options_;
  DecoderWeights weights_;
  ComputePool& pool_;
  ResidualStream stream_;
  AttentionBlock attention_;
  FeedForward feed_forward_;
};

double fraction_of(const WideFractions& fractions, LayerWeights::Input input) {
  switch (input) {
    case LayerWeights::Input::kQkv:
      return fractions.qkv;
    case LayerWeights::Input::kAttentionOut:
      return fractions.attention_out;
    case LayerWeights::Input::kFeedForward:
      return fractions.gate_up;
    case LayerWeights::Input::kDown:
      break;
  }
  return fractions.down;
}

// Beyond the last learned position there is nothing to run.
int64_t measured_tokens(const ModelConfig& config) {
  return config.learned_positions ? std::min(kMeasuredTokens, config.max_positions) : kMeasuredTokens;
}

int64_t widest_qkv(const DecoderWeights& weights) {
  int64_t most = 0;
  for (const LayerWeights& layer : weights.layers) most = std::max(most, layer.attention.qkv.width());
  return most;
}

LayeredDecoder::LayeredDecoder(const ModelConfig& config, const DecoderOptions& options,
                               DecoderWeights weights, ComputePool& pool)
    : config_(config),
      options_(options),
      weights_(std::move(weights)),
      pool_(pool),
      stream_(config_,
              {options.max_tokens, std::max(options.max_tokens, options.max_logit_rows),
               int64_t{config.num_heads} * config.head_dim},
              pool),
      attention_(config_, {options.max_tokens, options.max_context, widest_qkv(weights_)}, pool),
      feed_forward_(config_, options.max_tokens, weights_, pool) {}

void LayeredDecoder::forward(const ForwardInput& input, KvStorage& kv, float* logits) noexcept {
  PAGODA_CHECK(static_cast<int64_t>(input.logit_rows.size()) <= options_.max_logit_rows,
               "{} logit rows of {}", input.logit_rows.size(), options_.max_logit_rows);
  run_layers(input, kv);
  if (!input.logit_rows.empty()) output_head(input, logits);
}

void LayeredDecoder::forward_hidden(const ForwardInput& input, KvStorage& kv, float* rows) noexcept {
  run_layers(input, kv);
  for (const int64_t row : input.logit_rows) {
    kernels::norm_row(stream_.rows().row(row), weights_.final_norm.view(), config_.hidden_size, rows);
    rows += config_.hidden_size;
  }
}

void LayeredDecoder::run_layers(const ForwardInput& input, KvStorage& kv) noexcept {
  const auto num_tokens = static_cast<int64_t>(input.tokens.size());
  PAGODA_CHECK(num_tokens <= options_.max_tokens, "{} tokens of {}", num_tokens, options_.max_tokens);
  attention_.begin(input);
  stream_.begin(num_tokens);
  kernels::embed(weights_.embedding, input.tokens, config_.embedding_scale, stream_.rows(), pool_);
  if (config_.learned_positions) add_positions();
  for (int index = 0; index < config_.num_layers; ++index) {
    const LayerWeights& layer = weights_.layers[static_cast<size_t>(index)];
    attention_.run(layer.attention, index, kv, stream_);
    feed_forward_.run(layer.feed_forward, stream_);
  }
}

void LayeredDecoder::add_positions() noexcept {
  const kernels::RowsView rows = stream_.rows();
  for (int64_t token = 0; token < rows.rows; ++token) {
    const int64_t position = attention_.positions()[static_cast<size_t>(token)];
    const float* const vector = weights_.positions.data() + position * rows.width;
    float* const row = rows.row(token);
    for (int64_t i = 0; i < rows.width; ++i) row[i] += vector[i];
  }
}

void LayeredDecoder::output_head(const ForwardInput& input, float* logits) noexcept {
  const auto num_rows = static_cast<int64_t>(input.logit_rows.size());
  Rows& rows = stream_.block_out();
  for (int64_t i = 0; i < num_rows; ++i) {
    std::copy_n(stream_.rows().row(input.logit_rows[static_cast<size_t>(i)]), config_.hidden_size,
                rows.row(i));
  }
  kernels::ActivationBuffer& converted = stream_.converted();
  const auto normed = [&](const kernels::ActivationSpec& spec) {
    kernels::norm_convert(rows.view(num_rows, config_.hidden_size), weights_.final_norm.view(), spec,
                          converted, pool_);
  };
  if (config_.tied_embeddings) {
    normed({kernels::activation_form(weights_.embedding.layout()), &weights_.tied_head_wide});
    kernels::MatmulJob job;
    job.weight = &weights_.embedding;
    job.out = logits;
    job.out_stride = logits_stride();
    kernels::matmul(converted.view(), std::span(&job, 1), pool_);
  } else {
    normed(weights_.head.input());
    weights_.head.run(converted.view(), logits, logits_stride(), false, pool_);
  }
  if (config_.logit_scale != 1.0f || config_.logit_softcap != 0.0f) {
    kernels::cap_logits({logits, num_rows, config_.vocab_size, logits_stride()},
                        {config_.logit_scale, config_.logit_softcap}, pool_);
  }
}

void LayeredDecoder::set_activation_precision() {
  if (options_.activation_precision == ActivationPrecision::kInt16) return;  // what load() left
  if (options_.activation_precision == ActivationPrecision::kInt8) return set_narrow_groups();
  GroupStatistics statistics;
  KvStorage kv(kv_shape(), kMeasuredBlocks);
  stream_.measure(&statistics);
  run_random_tokens(kv);
  stream_.measure(nullptr);
  set_wide_groups(statistics);
}

void LayeredDecoder::balance_keys() {
  if (options_.kv_dtype != DType::kI8) return;
  KvShape exact = kv_shape();
  exact.dtype = DType::kF32;
  KvStorage kv(exact, kMeasuredBlocks);
  attention_.key_balance().begin_measuring(config_);
  run_random_tokens(kv);
  attention_.key_balance().finish_measuring();
}

// For those who look at what happens meanwhile. The limits of a step must not show in the result: a server
// with another step budget would answer with other tokens.
void LayeredDecoder::run_random_tokens(KvStorage& kv) noexcept {
  constexpr uint64_t kSeed = 1;
  const int64_t count = measured_tokens(config_);
  std::vector<TokenId> tokens;
  for (int64_t i = 0; i < count; ++i) {
    const double draw = uniform01(kSeed, 0, static_cast<uint64_t>(i));
    tokens.push_back(TokenId{static_cast<int32_t>(draw * static_cast<double>(config_.vocab_size))});
  }
  std::vector<BlockId> table;
  for (int32_t block = 0; block * kKvBlockTokens < count; ++block) table.push_back(BlockId{block});
  kernels::AttentionSequence sequence;
  sequence.block_table = table;
  for (int64_t done = 0; done < count; done += sequence.num_tokens) {
    sequence.first_position = done;
    sequence.num_tokens = std::min(count - done, options_.max_tokens);
    const auto chunk = std::span<const TokenId>(tokens).subspan(static_cast<size_t>(done),
                                                                static_cast<size_t>(sequence.num_tokens));
    forward({chunk, std::span(&sequence, 1), {}}, kv, nullptr);
  }
}

void LayeredDecoder::set_wide_groups(const GroupStatistics& statistics) {
  for (size_t index = 0; index < weights_.layers.size(); ++index) {
    const WideFractions fractions =
        wide_fractions(static_cast<int>(index), config_.num_layers, config_.hidden_size);
    weights_.layers[index].for_each([&](Projection& projection, LayerWeights::Input input) {
      projection.set_wide(statistics.choose(&projection, projection.depth(), fraction_of(fractions, input)));
    });
  }
}

void LayeredDecoder::set_narrow_groups() {
  const auto narrow = [](Projection& projection) {
    projection.set_wide(kernels::WideGroups::none(projection.depth()));
  };
  for (LayerWeights& layer : weights_.layers) {
    layer.for_each([&](Projection& projection, LayerWeights::Input) { narrow(projection); });
  }
  weights_.tied_head_wide = kernels::WideGroups::none(config_.hidden_size);
  if (!config_.tied_embeddings) narrow(weights_.head);
}

}  // namespace

Result<std::unique_ptr<Decoder>> load_decoder(const Checkpoint& checkpoint, const DecoderOptions& options,
                                              ComputePool& pool) {
  PAGODA_CHECK(options.max_context > 0 && options.max_tokens > 0);
  auto weights = PAGODA_TRY(load_decoder_weights(checkpoint, options.precision, pool));
  ModelConfig config = checkpoint.config;
  choose_long_rope(config.rope, options.max_context);
  DecoderOptions roomy = options;
  roomy.max_context = std::max(options.max_context, measured_tokens(config));
  auto decoder = std::make_unique<LayeredDecoder>(config, roomy, std::move(weights), pool);
  decoder->set_activation_precision();
  decoder->balance_keys();
  return std::unique_ptr<Decoder>(std::move(decoder));
}

}  // namespace pagoda::model
