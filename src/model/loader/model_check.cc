#include "model/loader/model_check.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <unordered_set>

#include "model/loader/file_error.h"

namespace pagoda::model {
namespace {

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

Result<void> check_rope(const RopeConfig& rope, int head_dim, const std::string& where) {
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
  if (!rope.freq_factors.empty() && rope.freq_factors.size() != static_cast<size_t>(head_dim / 2)) {
    return corrupt_file(where, "{} RoPE frequency factors for a head of {}", rope.freq_factors.size(),
                        head_dim);
  }
  for (const float factor : rope.freq_factors) {
    if (!good(static_cast<double>(factor))) {
      return corrupt_file(where, "RoPE frequency factor {} is not a positive number", factor);
    }
  }
  return {};
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
  add_linear(out, prefix + "mlp.gate_proj", c.intermediate_size, c.hidden_size, c.mlp_bias);
  add_linear(out, prefix + "mlp.up_proj", c.intermediate_size, c.hidden_size, c.mlp_bias);
  add_linear(out, prefix + "mlp.down_proj", c.hidden_size, c.intermediate_size, c.mlp_bias);
  out.push_back({prefix + "input_layernorm.weight", c.hidden_size, 0});
  out.push_back({prefix + "post_attention_layernorm.weight", c.hidden_size, 0});
  if (c.post_norms) {
    out.push_back({prefix + "pre_feedforward_layernorm.weight", c.hidden_size, 0});
    out.push_back({prefix + "post_feedforward_layernorm.weight", c.hidden_size, 0});
  }
}

// Tensors that may lie in a file without being read: frequencies that follow from the configuration, and the
// parts of multimodal models that see pictures.
bool may_be_ignored(std::string_view name, const ModelConfig& config) {
  if (config.tied_embeddings && name == "lm_head.weight") return true;
  constexpr std::array<std::string_view, 3> kEndings = {"rotary_emb.inv_freq", ".attn_rot_embd",
                                                        "rope_freqs.weight"};
  constexpr std::array<std::string_view, 4> kStarts = {"vision_tower.", "multi_modal_projector.",
                                                       "model.vision_tower.", "model.multi_modal_projector."};
  return std::any_of(kEndings.begin(), kEndings.end(), [&](auto ending) { return name.ends_with(ending); }) ||
         std::any_of(kStarts.begin(), kStarts.end(), [&](auto start) { return name.starts_with(start); });
}

}  // namespace

std::vector<RequiredTensor> required_tensors(const ModelConfig& config) {
  std::vector<RequiredTensor> out;
  out.push_back({"model.embed_tokens.weight", config.vocab_size, config.hidden_size});
  for (int layer = 0; layer < config.num_layers; ++layer) add_layer(out, config, layer);
  out.push_back({"model.norm.weight", config.hidden_size, 0});
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
  const float eps = config.rms_norm_eps;
  if (!(eps >= 0 && eps < 1)) return corrupt_file(where, "RMS norm epsilon {} is not in 0 to 1", eps);
  if (!std::isfinite(config.attention_scale) || config.attention_scale <= 0) {
    return corrupt_file(where, "attention scale {} is not a positive number", config.attention_scale);
  }
  for (const int64_t window : config.layer_window) {
    if (window < 0 || window > kMaxInt32)
      return corrupt_file(where, "sliding window {} is impossible", window);
  }
  PAGODA_TRY(check_rope(config.rope, config.head_dim, where));
  if (config.has_rope_sliding) PAGODA_TRY(check_rope(config.rope_sliding, config.head_dim, where));
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
