#include "model/loader/model_check.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <unordered_set>

#include "kernels/router.h"
#include "model/loader/file_error.h"

namespace pagoda::model {
namespace {

using kernels::kMaxExperts;
using kernels::kMaxExpertsPerToken;

// Far above every published model; they keep all products of sizes within int64.
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxHeads = 65536;
constexpr int64_t kMaxHeadDim = 8192;
constexpr int64_t kMaxWidth = int64_t{1} << 24;
constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();

struct NamedRange {
  std::string_view name;
  int64_t value, low, high;
};

Result<void> check_factors(std::string_view name, const std::vector<float>& factors, int rotary_dim,
                           const std::string& where) {
  if (factors.size() != static_cast<size_t>(rotary_dim / 2)) {
    return corrupt_file(where, "{} RoPE {} for {} rotated dimensions of a head", factors.size(), name,
                        rotary_dim);
  }
  for (const float factor : factors) {
    if (!std::isfinite(factor) || factor <= 0) {
      return corrupt_file(where, "RoPE {}: {} is not a positive number", name, factor);
    }
  }
  return {};
}

Result<void> check_rope(const RopeConfig& rope, int rotary_dim, const std::string& where) {
  const auto good = [](double value) { return std::isfinite(value) && value > 0; };
  if (!good(rope.theta)) return corrupt_file(where, "RoPE base {} is not a positive number", rope.theta);
  if (rope.scaling != RopeConfig::Scaling::kNone && !good(rope.factor)) {
    return corrupt_file(where, "RoPE scaling factor {} is not a positive number", rope.factor);
  }
  if (rope.scaling == RopeConfig::Scaling::kLlama3) {
    if (!good(rope.low_freq_factor) || !good(rope.high_freq_factor) ||
        rope.high_freq_factor <= rope.low_freq_factor) {
      return corrupt_file(
          where, "RoPE low_freq_factor {} and high_freq_factor {} are not two rising positive numbers",
          rope.low_freq_factor, rope.high_freq_factor);
    }
    if (rope.original_max_positions < 1) {
      return corrupt_file(where, "RoPE original_max_position_embeddings is {}", rope.original_max_positions);
    }
  }
  if (!good(rope.magnitude) || rope.magnitude > 1000) {
    return corrupt_file(where, "RoPE attention factor {} is not in 0 to 1000", rope.magnitude);
  }
  if (rope.scaling == RopeConfig::Scaling::kLongRope) {
    PAGODA_TRY(check_factors("short factors", rope.short_factors, rotary_dim, where));
    return check_factors("long factors", rope.long_factors, rotary_dim, where);
  }
  return rope.freq_factors.empty() ? Result<void>{}
                                   : check_factors("frequency factors", rope.freq_factors, rotary_dim, where);
}

Result<void> check_token_ids(const ModelConfig& config, const std::string& where) {
  if (config.bos.value < -1 || config.bos.value >= config.vocab_size) {
    return corrupt_file(where, "BOS token {} is outside the vocabulary of {}", config.bos.value,
                        config.vocab_size);
  }
  for (const TokenId id : config.eos) {
    if (id.value < 0 || id.value >= config.vocab_size) {
      return corrupt_file(where, "EOS token {} is outside the vocabulary of {}", id.value, config.vocab_size);
    }
  }
  return {};
}

void add_linear(std::vector<RequiredTensor>& out, const std::string& stem, int64_t rows, int64_t depth,
                bool bias) {
  out.push_back({stem + ".weight", rows, depth});
  if (bias) out.push_back({stem + ".bias", rows, 0});
}

// A norm of the residual stream.
void add_norm(std::vector<RequiredTensor>& out, const std::string& stem, const ModelConfig& c) {
  out.push_back({stem + ".weight", c.hidden_size, 0});
  if (c.norm_kind == kernels::NormKind::kLayer) out.push_back({stem + ".bias", c.hidden_size, 0});
}

void add_experts(std::vector<RequiredTensor>& out, const std::string& mlp, const ModelConfig& c) {
  out.push_back({mlp + "gate.weight", c.moe.num_experts, c.hidden_size});
  for (int expert = 0; expert < c.moe.num_experts; ++expert) {
    const std::string stem = fmt::format("{}experts.{}.", mlp, expert);
    add_linear(out, stem + "gate_proj", c.moe.intermediate_size, c.hidden_size, false);
    add_linear(out, stem + "up_proj", c.moe.intermediate_size, c.hidden_size, false);
    add_linear(out, stem + "down_proj", c.hidden_size, c.moe.intermediate_size, false);
  }
}

void add_layer(std::vector<RequiredTensor>& out, const ModelConfig& c, int layer) {
  const std::string prefix = fmt::format("model.layers.{}.", layer);
  const int64_t head_dim = c.head_dim, q_rows = c.num_heads * head_dim, kv_rows = c.num_kv_heads * head_dim;
  add_linear(out, prefix + "self_attn.q_proj", q_rows, c.hidden_size, c.qkv_bias);
  add_linear(out, prefix + "self_attn.k_proj", kv_rows, c.hidden_size, c.qkv_bias);
  add_linear(out, prefix + "self_attn.v_proj", kv_rows, c.hidden_size, c.qkv_bias);
  add_linear(out, prefix + "self_attn.o_proj", c.hidden_size, q_rows, c.attention_out_bias);
  if (c.qk_norm) {
    out.push_back({prefix + "self_attn.q_norm.weight", head_dim, 0});
    out.push_back({prefix + "self_attn.k_norm.weight", head_dim, 0});
  }
  if (c.moe.is_sparse(layer)) {
    add_experts(out, prefix + "mlp.", c);
  } else {
    if (c.gated_feed_forward)
      add_linear(out, prefix + "mlp.gate_proj", c.intermediate_size, c.hidden_size, c.mlp_bias);
    add_linear(out, prefix + "mlp.up_proj", c.intermediate_size, c.hidden_size, c.mlp_bias);
    add_linear(out, prefix + "mlp.down_proj", c.hidden_size, c.intermediate_size, c.mlp_bias);
  }
  add_norm(out, prefix + "input_layernorm", c);
  add_norm(out, prefix + "post_attention_layernorm", c);
  if (c.post_norms) {
    add_norm(out, prefix + "pre_feedforward_layernorm", c);
    add_norm(out, prefix + "post_feedforward_layernorm", c);
  }
}

// Tensors that may lie in a file without being read: frequencies that follow from the configuration, and the
// parts of multimodal models that see pictures.
bool may_be_ignored(std::string_view name, const ModelConfig& config) {
  if (config.tied_embeddings && name == "lm_head.weight") return true;
  // The causal mask, which old GPT-2 files hold as a tensor.
  if (config.architecture == Architecture::kGpt2 &&
      (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"))) {
    return true;
  }
  constexpr std::array<std::string_view, 5> kEndings = {"rotary_emb.inv_freq", ".attn_rot_embd",
                                                        "rope_freqs.weight", "rope_factors_long.weight",
                                                        "rope_factors_short.weight"};
  constexpr std::array<std::string_view, 4> kStarts = {"vision_tower.", "multi_modal_projector.",
                                                       "model.vision_tower.", "model.multi_modal_projector."};
  return std::any_of(kEndings.begin(), kEndings.end(), [&](auto ending) { return name.ends_with(ending); }) ||
         std::any_of(kStarts.begin(), kStarts.end(), [&](auto start) { return name.starts_with(start); });
}

Result<void> check_experts(const ModelConfig& config, const std::string& where) {
  const MoeConfig& moe = config.moe;
  if (moe.layers.empty()) return {};
  if (moe.num_experts < 1 || moe.num_experts > kMaxExperts) {
    return corrupt_file(where, "number of experts {} is not in 1 to {}", moe.num_experts, kMaxExperts);
  }
  if (moe.experts_per_token < 1 || moe.experts_per_token > std::min(moe.num_experts, kMaxExpertsPerToken)) {
    return corrupt_file(where, "number of experts per token {} is not in 1 to {}", moe.experts_per_token,
                        std::min(moe.num_experts, kMaxExpertsPerToken));
  }
  if (moe.intermediate_size < 1 || moe.intermediate_size > kMaxWidth) {
    return corrupt_file(where, "feed-forward size of an expert {} is not in 1 to {}", moe.intermediate_size,
                        kMaxWidth);
  }
  return {};
}

}  // namespace

std::vector<RequiredTensor> required_tensors(const ModelConfig& config) {
  std::vector<RequiredTensor> out;
  out.push_back({"model.embed_tokens.weight", config.vocab_size, config.hidden_size});
  for (int layer = 0; layer < config.num_layers; ++layer) add_layer(out, config, layer);
  if (config.learned_positions) {
    out.push_back({"model.embed_positions.weight", config.max_positions, config.hidden_size});
  }
  add_norm(out, "model.norm", config);
  if (!config.tied_embeddings) out.push_back({"lm_head.weight", config.vocab_size, config.hidden_size});
  return out;
}

Result<void> check_config(const ModelConfig& config, const std::string& where) {
  const NamedRange ranges[] = {{"vocabulary size", config.vocab_size, 1, kMaxInt32},
                               {"hidden size", config.hidden_size, 1, kMaxWidth},
                               {"feed-forward size", config.intermediate_size, 1, kMaxWidth},
                               {"number of layers", config.num_layers, 1, kMaxLayers},
                               {"number of heads", config.num_heads, 1, kMaxHeads},
                               {"number of key-value heads", config.num_kv_heads, 1, config.num_heads},
                               {"head dimension", config.head_dim, 2, kMaxHeadDim},
                               {"context length", config.max_positions, 1, kMaxInt32}};
  for (const NamedRange& range : ranges) {
    if (range.value < range.low || range.value > range.high) {
      return corrupt_file(where, "{} {} is not in {} to {}", range.name, range.value, range.low, range.high);
    }
  }
  if (config.num_heads % config.num_kv_heads != 0) {
    return corrupt_file(where, "{} heads can't share {} key-value heads evenly", config.num_heads,
                        config.num_kv_heads);
  }
  if (config.head_dim % 2 != 0) return corrupt_file(where, "head dimension {} is odd", config.head_dim);
  const float eps = config.norm_eps;
  if (!(eps >= 0 && eps < 1)) return corrupt_file(where, "norm epsilon {} is not in 0 to 1", eps);
  if (!std::isfinite(config.attention_scale) || config.attention_scale <= 0) {
    return corrupt_file(where, "attention scale {} is not a positive number", config.attention_scale);
  }
  for (const int64_t window : config.layer_window) {
    if (window < 0 || window > kMaxInt32)
      return corrupt_file(where, "sliding window {} is impossible", window);
  }
  PAGODA_TRY(check_experts(config, where));
  if (!config.learned_positions) {
    if (config.rotary_dim < 2 || config.rotary_dim > config.head_dim || config.rotary_dim % 2 != 0) {
      return corrupt_file(where, "RoPE can't turn {} of {} dimensions of a head", config.rotary_dim,
                          config.head_dim);
    }
    PAGODA_TRY(check_rope(config.rope, config.rotary_dim, where));
    if (config.has_rope_sliding) PAGODA_TRY(check_rope(config.rope_sliding, config.rotary_dim, where));
  }
  return check_token_ids(config, where);
}

Result<void> check_tensors(const ModelConfig& config, const TensorSource& tensors, const std::string& where) {
  std::unordered_set<std::string> known;
  for (const RequiredTensor& tensor : required_tensors(config)) {
    if (tensor.depth > 0) {
      PAGODA_TRY(tensors.matrix(tensor.name, tensor.rows, tensor.depth));
    } else {
      PAGODA_TRY(tensors.vector(tensor.name, tensor.rows));
    }
    known.insert(tensor.name);
  }
  for (const TensorInfo& info : tensors.list()) {
    if (!known.contains(info.name) && !may_be_ignored(info.name, config)) {
      return unsupported_model(where, "tensor {} is no part of a {} model of {} layers", shown(info.name),
                               architecture_name(config.architecture), config.num_layers);
    }
  }
  return {};
}

}  // namespace pagoda::model
