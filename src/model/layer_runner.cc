#include "model/layer_runner.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "model/attention_block.h"
#include "model/feed_forward.h"
#include "model/input_observer.h"
#include "model/residual_stream.h"

namespace pagoda::model {
namespace {

KvShape kv_shape(const ModelConfig& config) {
  return {config.num_layers, config.num_kv_heads, config.head_dim, DType::kF32};
}

int blocks_for(int64_t tokens) {
  return static_cast<int>((tokens + kKvBlockTokens - 1) / kKvBlockTokens);
}

// Tells which input a projection has.
class Named final : public InputObserver {
 public:
  Named(const LayerWeights& layer, const LayerRunner::Observe& observe) : observe_(observe) {
    layer.for_each([&](const Projection& projection, LayerWeights::Input input) {
      inputs_.emplace(&projection, input);
    });
  }
  void observe(const void* projection, const kernels::Activations& x) override {
    const auto found = inputs_.find(projection);
    if (found != inputs_.end()) observe_(found->second, x);
  }

 private:
  const LayerRunner::Observe& observe_;
  std::map<const void*, LayerWeights::Input> inputs_;
};

}  // namespace

struct LayerRunner::Loaded {
  Loaded(const ModelConfig& config, int layer, DecoderWeights loaded, int64_t max_tokens, ComputePool& pool)
      : index(layer),
        weights(std::move(loaded)),
        stream(config, {max_tokens, max_tokens, int64_t{config.num_heads} * config.head_dim}, pool),
        attention(config, {max_tokens, max_tokens, weights.layers.front().attention.qkv.width()}, pool),
        feed_forward(config, max_tokens, weights, pool) {}

  int index;
  DecoderWeights weights;  // of one layer
  ResidualStream stream;
  AttentionBlock attention;
  FeedForward feed_forward;
};

LayerRunner::LayerRunner(const ModelConfig& config, int64_t max_tokens, ComputePool& pool)
    : config_(config), max_tokens_(max_tokens), pool_(pool), kv_(kv_shape(config), blocks_for(max_tokens)) {
  choose_long_rope(config_.rope, max_tokens);
  for (int32_t block = 0; block < kv_.num_blocks(); ++block) blocks_.push_back(BlockId{block});
}

LayerRunner::~LayerRunner() = default;

Result<void> LayerRunner::load(int layer, const TensorSource& tensors) {
  loaded_.reset();  // before the next one takes its memory
  DecoderWeights weights;
  weights.layers.push_back(PAGODA_TRY(load_layer_weights(config_, tensors, layer, pool_)));
  loaded_ = std::make_unique<Loaded>(config_, layer, std::move(weights), max_tokens_, pool_);
  return {};
}

void LayerRunner::run(float* rows, int64_t num_tokens) noexcept {
  loaded_->stream.measure(nullptr);
  run_layer(rows, num_tokens);
}

void LayerRunner::run(float* rows, int64_t num_tokens, const Observe& observe) noexcept {
  Named named(loaded_->weights.layers.front(), observe);
  loaded_->stream.measure(&named);
  run_layer(rows, num_tokens);
  loaded_->stream.measure(nullptr);
}

void LayerRunner::run_layer(float* rows, int64_t num_tokens) noexcept {
  PAGODA_CHECK(num_tokens <= max_tokens_, "{} tokens of {}", num_tokens, max_tokens_);
  Loaded& layer = *loaded_;
  kernels::AttentionSequence sequence;
  sequence.block_table = blocks_;
  sequence.num_tokens = num_tokens;
  ForwardInput input;
  input.sequences = std::span(&sequence, 1);
  layer.attention.begin(input);
  layer.stream.begin(num_tokens);
  const kernels::RowsView stream = layer.stream.rows();
  for (int64_t i = 0; i < num_tokens; ++i) {
    std::copy_n(rows + i * config_.hidden_size, config_.hidden_size, stream.row(i));
  }
  const LayerWeights& weights = layer.weights.layers.front();
  layer.attention.run(weights.attention, layer.index, kv_, layer.stream);
  layer.feed_forward.run(weights.feed_forward, layer.stream);
  for (int64_t i = 0; i < num_tokens; ++i) {
    std::copy_n(stream.row(i), config_.hidden_size, rows + i * config_.hidden_size);
  }
}

}  // namespace pagoda::model
