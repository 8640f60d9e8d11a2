#include "model/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/packed_cache.h"

namespace pagoda::model {
namespace {

using kernels::ActivationForm;

Result<std::vector<float>> load_bias(const TensorSource& tensors,
                                     std::span<const Projection::Section> sections) {
  if (std::none_of(sections.begin(), sections.end(), [](const auto& s) { return s.has_bias; })) {
    return std::vector<float>{};
  }
  std::vector<float> bias;
  for (const auto& section : sections) {
    if (section.has_bias) {
      const auto part = PAGODA_TRY(tensors.vector(section.name + ".bias", section.rows));
      bias.insert(bias.end(), part.begin(), part.end());
    } else {
      bias.resize(bias.size() + static_cast<size_t>(section.rows), 0.0f);
    }
  }
  return bias;
}

// RMSNorm weights; the families that store w where the formula wants 1 + w get it here.
Result<std::vector<float>> load_norm(const Checkpoint& checkpoint, const std::string& name, int64_t size) {
  auto weight = PAGODA_TRY(checkpoint.tensors->vector(name + ".weight", size));
  if (checkpoint.config.norm_weight_plus_one) {
    for (float& w : weight) w += 1.0f;
  }
  return weight;
}

}  // namespace

Result<Projection> Projection::load(const TensorSource& tensors, std::span<const Section> sections,
                                    int64_t depth, WeightPacker& packer) {
  Projection projection;
  projection.depth_ = depth;
  projection.wide_ = kernels::WideGroups::all(depth);
  MatrixReaders readers;
  for (const auto& section : sections) {
    readers.push_back(PAGODA_TRY(tensors.matrix(section.name + ".weight", section.rows, depth)));
  }
  std::vector<const MatrixReader*> all;
  for (const auto& reader : readers) all.push_back(reader.get());
  // One weight of all sections if the formats agree, else one weight each.
  const size_t per_weight = can_pack_together(all, packer.precision()) ? sections.size() : 1;
  projection.weights_.resize(sections.size() / per_weight);
  for (size_t first = 0; first < sections.size(); first += per_weight) {
    int64_t column = projection.width_;
    projection.columns_.push_back(column);
    MatrixReaders parts;
    for (size_t s = first; s < first + per_weight; ++s) {
      projection.offsets_.push_back(column);
      column += sections[s].rows;
      parts.push_back(std::move(readers[s]));
    }
    // The packer keeps the address: that of a vector's element, which moving the projection leaves alone.
    const auto spec = packer.add(std::move(parts), projection.weights_[first / per_weight]);
    projection.width_ += spec.padded_rows();
    const ActivationForm form = kernels::activation_form(spec.layout);
    if (std::find(projection.forms_.begin(), projection.forms_.end(), form) == projection.forms_.end()) {
      projection.forms_.push_back(form);
    }
    projection.biases_.push_back(PAGODA_TRY(load_bias(tensors, sections.subspan(first, per_weight))));
  }
  return projection;
}

kernels::PanelRows Projection::panels(size_t section) const {
  const auto after = std::upper_bound(columns_.begin(), columns_.end(), offsets_[section]);
  const auto index = static_cast<size_t>(after - columns_.begin() - 1);
  const int64_t first = offsets_[section] - columns_[index];
  if (first % kPanelRows != 0) return {};
  return {&weights_[index], first / kPanelRows,
          biases_[index].empty() ? nullptr : biases_[index].data() + first};
}

void Projection::run(const kernels::Activations& x, float* out, int64_t out_stride, bool accumulate,
                     ComputePool& pool) const noexcept {
  // No projection has more than three sections, so no more weights.
  std::array<kernels::MatmulJob, 3> jobs;
  size_t count = 0;
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (kernels::activation_form(weights_[i].layout()) != x.form) continue;
    kernels::MatmulJob& job = jobs[count++];
    job.weight = &weights_[i];
    job.bias = biases_[i].empty() ? nullptr : biases_[i].data();
    job.out = out + columns_[i];
    job.out_stride = out_stride;
    job.accumulate = accumulate;
  }
  kernels::matmul(x, std::span(jobs).first(count), pool);
}

namespace {

Result<LayerWeights> load_layer(const Checkpoint& checkpoint, int index, WeightPacker& packer) {
  const ModelConfig& config = checkpoint.config;
  const TensorSource& tensors = *checkpoint.tensors;
  const std::string prefix = fmt::format("model.layers.{}.", index);
  const std::string attention = prefix + "self_attn.", mlp = prefix + "mlp.";
  const int64_t q_rows = int64_t{config.num_heads} * config.head_dim;
  const int64_t kv_rows = int64_t{config.num_kv_heads} * config.head_dim;
  LayerWeights layer;
  layer.attention_norm = PAGODA_TRY(load_norm(checkpoint, prefix + "input_layernorm", config.hidden_size));
  if (config.qk_norm) {
    layer.q_norm = PAGODA_TRY(load_norm(checkpoint, attention + "q_norm", config.head_dim));
    layer.k_norm = PAGODA_TRY(load_norm(checkpoint, attention + "k_norm", config.head_dim));
  }
  if (config.post_norms) {
    // Gemma's names: the norm before the feed-forward is its own tensor, the "post" ones come after each
    // block.
    layer.post_attention_norm =
        PAGODA_TRY(load_norm(checkpoint, prefix + "post_attention_layernorm", config.hidden_size));
    layer.feed_forward_norm =
        PAGODA_TRY(load_norm(checkpoint, prefix + "pre_feedforward_layernorm", config.hidden_size));
    layer.post_feed_forward_norm =
        PAGODA_TRY(load_norm(checkpoint, prefix + "post_feedforward_layernorm", config.hidden_size));
  } else {
    layer.feed_forward_norm =
        PAGODA_TRY(load_norm(checkpoint, prefix + "post_attention_layernorm", config.hidden_size));
  }
  const std::array<Projection::Section, 3> qkv{{{attention + "q_proj", q_rows, config.qkv_bias},
                                                {attention + "k_proj", kv_rows, config.qkv_bias},
                                                {attention + "v_proj", kv_rows, config.qkv_bias}}};
  layer.qkv = PAGODA_TRY(Projection::load(tensors, qkv, config.hidden_size, packer));
  const std::array<Projection::Section, 1> out{
      {{attention + "o_proj", config.hidden_size, config.attention_out_bias}}};
  layer.attention_out = PAGODA_TRY(Projection::load(tensors, out, q_rows, packer));
  const std::array<Projection::Section, 2> gate_up{
      {{mlp + "gate_proj", config.intermediate_size, config.mlp_bias},
       {mlp + "up_proj", config.intermediate_size, config.mlp_bias}}};
  layer.gate_up = PAGODA_TRY(Projection::load(tensors, gate_up, config.hidden_size, packer));
  const std::array<Projection::Section, 1> down{{{mlp + "down_proj", config.hidden_size, config.mlp_bias}}};
  layer.down = PAGODA_TRY(Projection::load(tensors, down, config.intermediate_size, packer));
  return layer;
}

}  // namespace

Result<DecoderWeights> load_decoder_weights(const Checkpoint& checkpoint, WeightPrecision precision,
                                            ComputePool& pool) {
  const ModelConfig& config = checkpoint.config;
  DecoderWeights weights;
  WeightPacker packer(precision);
  const auto add_embedding = [&]() -> Result<void> {
    packer.add({PAGODA_TRY(checkpoint.tensors->matrix("model.embed_tokens.weight", config.vocab_size,
                                                      config.hidden_size))},
               weights.embedding);
    return {};
  };
  weights.tied_head_wide = kernels::WideGroups::all(config.hidden_size);
  // A step reads a few rows of the embedding first and all of it last, when it is the output head too.
  if (!config.tied_embeddings) PAGODA_TRY(add_embedding());
  for (int index = 0; index < config.num_layers; ++index) {
    weights.layers.push_back(PAGODA_TRY(load_layer(checkpoint, index, packer)));
  }
  weights.final_norm = PAGODA_TRY(load_norm(checkpoint, "model.norm", config.hidden_size));
  if (config.tied_embeddings) {
    PAGODA_TRY(add_embedding());
  } else {
    const std::array<Projection::Section, 1> head{{{"lm_head", config.vocab_size, false}}};
    weights.head = PAGODA_TRY(Projection::load(*checkpoint.tensors, head, config.hidden_size, packer));
  }
  PAGODA_TRY(pack_or_reuse(checkpoint, packer, pool));
  weights.bytes = packer.bytes();
  return weights;
}

}  // namespace pagoda::model
