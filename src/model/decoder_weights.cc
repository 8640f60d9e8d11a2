#include "model/decoder_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "model/packed_cache.h"

namespace pagoda::model {

using kernels::ActivationForm;

namespace {

// Layer is LayerWeights, const or not.
template <class Layer, class Use>
void visit_projections(Layer& layer, const Use& use) {
  using Input = LayerWeights::Input;
  use(layer.attention.qkv, Input::kQkv);
  use(layer.attention.out, Input::kAttentionOut);
  auto& block = layer.feed_forward.block;
  if (auto* const gated = std::get_if<GatedWeights>(&block)) {
    use(gated->gate_up, Input::kFeedForward);
    use(gated->down, Input::kDown);
  } else if (auto* const plain = std::get_if<PlainWeights>(&block)) {
    use(plain->up, Input::kFeedForward);
    use(plain->down, Input::kDown);
  } else if (auto* const experts = std::get_if<ExpertsWeights>(&block)) {
    use(experts->gate_up.front(), Input::kFeedForward);
    use(experts->down.front(), Input::kDown);
  }
}

}  // namespace

void LayerWeights::for_each(FunctionRef<void(Projection&, Input)> use) {
  visit_projections(*this, use);
}

void LayerWeights::for_each(FunctionRef<void(const Projection&, Input)> use) const {
  visit_projections(*this, use);
}

std::string DecoderWeights::layout_summary() const {
  std::map<std::string, int> counts;
  int64_t groups = 0, wide = 0;
  const auto count = [&](const PackedWeight& weight) {
    const bool coded = kernels::activation_form(weight.layout()) == ActivationForm::kCoded;
    counts[coded ? fmt::format("{} g{}", weight_layout_name(weight.layout()), weight.spec().group_size)
                 : std::string(weight_layout_name(weight.layout()))]++;
  };
  count(embedding);
  for (const LayerWeights& layer : layers) {
    layer.for_each([&](const Projection& projection, LayerWeights::Input) {
      for (const auto& weight : projection.weights()) count(weight);
      if (projection.input().form != ActivationForm::kCoded) return;
      groups += projection.input().wide->num_groups();
      wide += projection.input().wide->count();
    });
    const auto* const experts = std::get_if<ExpertsWeights>(&layer.feed_forward.block);
    if (experts == nullptr) continue;
    for (size_t expert = 1; expert < experts->down.size(); ++expert) {
      for (const auto& weight : experts->gate_up[expert].weights()) count(weight);
      for (const auto& weight : experts->down[expert].weights()) count(weight);
    }
  }
  for (const auto& weight : head.weights()) count(weight);
  std::string text;
  for (const auto& [layout, n] : counts) text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", layout, n);
  if (groups == 0) return text;
  return fmt::format("{}; {} % of the activations in 16 bits, the rest in 8", text, 100 * wide / groups);
}

namespace {

// Loads the parts of a decoder in the order in which a step reads them.
class Loader {
 public:
  Loader(const ModelConfig& config, const TensorSource& tensors, WeightPrecision precision)
      : config_(config), tensors_(tensors), packer_(precision) {}
  Loader(const Checkpoint& checkpoint, WeightPrecision precision)
      : Loader(checkpoint.config, *checkpoint.tensors, precision) {}

  Result<void> load(DecoderWeights& weights);
  Result<LayerWeights> layer(int index);
  WeightPacker& packer() { return packer_; }

 private:
  Result<NormWeights> norm(const std::string& name, int64_t size) const;
  Result<void> embedding(DecoderWeights& weights);
  Result<std::vector<float>> positions() const;
  Result<AttentionWeights> attention(const std::string& prefix);
  Result<FeedForwardWeights> feed_forward(const std::string& prefix, bool sparse);
  Result<GatedWeights> gated(const std::string& mlp, int64_t width);
  Result<PlainWeights> plain(const std::string& mlp);
  Result<ExpertsWeights> experts(const std::string& mlp);
  Result<Projection> projection(std::span<const Projection::Section> sections, int64_t depth) {
    return Projection::load(tensors_, sections, depth, packer_);
  }

  const ModelConfig& config_;
  const TensorSource& tensors_;
  WeightPacker packer_;
};

// The families that store w where the formula wants 1 + w get it here.
Result<NormWeights> Loader::norm(const std::string& name, int64_t size) const {
  NormWeights norm;
  norm.kind = config_.norm_kind;
  norm.eps = config_.norm_eps;
  norm.weight = PAGODA_TRY(tensors_.vector(name + ".weight", size));
  if (config_.norm_weight_plus_one) {
    for (float& w : norm.weight) w += 1.0f;
  }
  if (norm.kind == kernels::NormKind::kLayer) norm.bias = PAGODA_TRY(tensors_.vector(name + ".bias", size));
  return norm;
}

Result<void> Loader::embedding(DecoderWeights& weights) {
  packer_.add(
      {PAGODA_TRY(tensors_.matrix("model.embed_tokens.weight", config_.vocab_size, config_.hidden_size))},
      weights.embedding);
  return {};
}

Result<std::vector<float>> Loader::positions() const {
  const auto reader =
      PAGODA_TRY(tensors_.matrix("model.embed_positions.weight", config_.max_positions, config_.hidden_size));
  std::vector<float> values(static_cast<size_t>(config_.max_positions * config_.hidden_size));
  reader->read_values(0, config_.max_positions, values.data());
  if (std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); }))
    return values;
  return make_error(ErrorKind::kCorruptFile, reader->describe() + " has a value that is no finite number");
}

Result<AttentionWeights> Loader::attention(const std::string& prefix) {
  const std::string self = prefix + "self_attn.";
  const int64_t q_rows = int64_t{config_.num_heads} * config_.head_dim;
  const int64_t kv_rows = int64_t{config_.num_kv_heads} * config_.head_dim;
  AttentionWeights weights;
  weights.norm = PAGODA_TRY(norm(prefix + "input_layernorm", config_.hidden_size));
  if (config_.qk_norm) {
    weights.q_norm = PAGODA_TRY(norm(self + "q_norm", config_.head_dim));
    weights.k_norm = PAGODA_TRY(norm(self + "k_norm", config_.head_dim));
  }
  if (config_.post_norms) {
    weights.post_norm = PAGODA_TRY(norm(prefix + "post_attention_layernorm", config_.hidden_size));
  }
  const std::array<Projection::Section, 3> qkv{{{self + "q_proj", q_rows, config_.qkv_bias},
                                                {self + "k_proj", kv_rows, config_.qkv_bias},
                                                {self + "v_proj", kv_rows, config_.qkv_bias}}};
  weights.qkv = PAGODA_TRY(projection(qkv, config_.hidden_size));
  const std::array<Projection::Section, 1> out{
      {{self + "o_proj", config_.hidden_size, config_.attention_out_bias}}};
  weights.out = PAGODA_TRY(projection(out, q_rows));
  return weights;
}

Result<FeedForwardWeights> Loader::feed_forward(const std::string& prefix, bool sparse) {
  const std::string mlp = prefix + "mlp.";
  FeedForwardWeights weights;
  // Gemma's names: the norm before the feed-forward is its own tensor, the "post" ones come after each block.
  const char* const before = config_.post_norms ? "pre_feedforward_layernorm" : "post_attention_layernorm";
  weights.norm = PAGODA_TRY(norm(prefix + before, config_.hidden_size));
  if (config_.post_norms) {
    weights.post_norm = PAGODA_TRY(norm(prefix + "post_feedforward_layernorm", config_.hidden_size));
  }
  if (sparse) {
    weights.block = PAGODA_TRY(experts(mlp));
  } else if (config_.gated_feed_forward) {
    weights.block = PAGODA_TRY(gated(mlp, config_.intermediate_size));
  } else {
    weights.block = PAGODA_TRY(plain(mlp));
  }
  return weights;
}

Result<GatedWeights> Loader::gated(const std::string& mlp, int64_t width) {
  const std::array<Projection::Section, 2> gate_up{
      {{mlp + "gate_proj", width, config_.mlp_bias}, {mlp + "up_proj", width, config_.mlp_bias}}};
  const std::array<Projection::Section, 1> down{{{mlp + "down_proj", config_.hidden_size, config_.mlp_bias}}};
  GatedWeights weights;
  weights.gate_up = PAGODA_TRY(projection(gate_up, config_.hidden_size));
  weights.down = PAGODA_TRY(projection(down, width));
  return weights;
}

Result<PlainWeights> Loader::plain(const std::string& mlp) {
  const int64_t width = config_.intermediate_size;
  const std::array<Projection::Section, 1> up{{{mlp + "up_proj", width, config_.mlp_bias}}};
  const std::array<Projection::Section, 1> down{{{mlp + "down_proj", config_.hidden_size, config_.mlp_bias}}};
  PlainWeights weights;
  weights.up = PAGODA_TRY(projection(up, config_.hidden_size));
  weights.down = PAGODA_TRY(projection(down, width));
  return weights;
}

bool same_input_and_sections(const Projection& a, const Projection& b) {
  return a.num_inputs() == 1 && b.num_inputs() == 1 && a.input().form == b.input().form &&
         a.input().order == nullptr && b.input().order == nullptr && a.width() == b.width() &&
         a.weights().size() == b.weights().size();
}

Result<ExpertsWeights> Loader::experts(const std::string& mlp) {
  const std::array<Projection::Section, 1> router{{{mlp + "gate", config_.moe.num_experts, false}}};
  ExpertsWeights weights;
  weights.router =
      PAGODA_TRY(Projection::load(tensors_, router, config_.hidden_size, packer_, WeightPrecision::kFloat32));
  for (int expert = 0; expert < config_.moe.num_experts; ++expert) {
    const std::string stem = fmt::format("{}experts.{}.", mlp, expert);
    GatedWeights one = PAGODA_TRY(gated(stem, config_.moe.intermediate_size));
    weights.gate_up.push_back(std::move(one.gate_up));
    weights.down.push_back(std::move(one.down));
    if (!same_input_and_sections(weights.gate_up.back(), weights.gate_up.front()) ||
        !same_input_and_sections(weights.down.back(), weights.down.front())) {
      return make_error(
          ErrorKind::kUnsupportedModel,
          fmt::format("{}*: experts in act-order, or in other formats than {}experts.0.*, can't be run", stem,
                      mlp));
    }
  }
  return weights;
}

Result<LayerWeights> Loader::layer(int index) {
  const std::string prefix = fmt::format("model.layers.{}.", index);
  LayerWeights layer;
  layer.attention = PAGODA_TRY(attention(prefix));
  layer.feed_forward = PAGODA_TRY(feed_forward(prefix, config_.moe.is_sparse(index)));
  return layer;
}

Result<void> Loader::load(DecoderWeights& weights) {
  weights.tied_head_wide = kernels::WideGroups::all(config_.hidden_size);
  // A step reads a few rows of the embedding first and all of it last, when it is the output head too.
  if (!config_.tied_embeddings) PAGODA_TRY(embedding(weights));
  if (config_.learned_positions) weights.positions = PAGODA_TRY(positions());
  for (int index = 0; index < config_.num_layers; ++index) {
    weights.layers.push_back(PAGODA_TRY(layer(index)));
  }
  weights.final_norm = PAGODA_TRY(norm("model.norm", config_.hidden_size));
  if (config_.tied_embeddings) return embedding(weights);
  const std::array<Projection::Section, 1> head{{{"lm_head", config_.vocab_size, false}}};
  weights.head = PAGODA_TRY(projection(head, config_.hidden_size));
  return {};
}

}  // namespace

Result<uint64_t> decoder_weight_bytes(const Checkpoint& checkpoint, WeightPrecision precision) {
  DecoderWeights weights;
  Loader loader(checkpoint, precision);
  PAGODA_TRY(loader.load(weights));
  return loader.packer().bytes() + weights.positions.size() * sizeof(float);
}

Result<LayerWeights> load_layer_weights(const ModelConfig& config, const TensorSource& tensors, int index,
                                        ComputePool& pool) {
  Loader loader(config, tensors, WeightPrecision::kNative);
  LayerWeights layer = PAGODA_TRY(loader.layer(index));
  PAGODA_TRY(loader.packer().pack(pool));
  return layer;
}

Result<DecoderWeights> load_decoder_weights(const Checkpoint& checkpoint, WeightPrecision precision,
                                            ComputePool& pool) {
  DecoderWeights weights;
  Loader loader(checkpoint, precision);
  PAGODA_TRY(loader.load(weights));
  PAGODA_TRY(pack_or_reuse(checkpoint, loader.packer(), pool));
  weights.bytes = loader.packer().bytes() + weights.positions.size() * sizeof(float);
  return weights;
}

}  // namespace pagoda::model
