#include "model/loader/hf_families.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "model/loader/file_error.h"

namespace pagoda::model {
namespace {

Result<void> read_activation(const JsonView& json, ModelConfig& config) {
  const Architecture family = config.architecture;
  const bool gelu = is_gemma(family) || family == Architecture::kStarcoder2 || family == Architecture::kGpt2;
  const char* const key = is_gemma(family)                ? "hidden_activation"
                          : family == Architecture::kGpt2 ? "activation_function"
                                                          : "hidden_act";
  config.activation = gelu ? kernels::GatedActivation::kGeluTanh : kernels::GatedActivation::kSilu;
  const auto name = PAGODA_TRY(json.string(key));
  // gelu_new and gelu_pytorch_tanh are the same formula, as are silu and swish.
  const bool known = !name || (gelu ? *name == "gelu_pytorch_tanh" || *name == "gelu_new"
                                    : *name == "silu" || *name == "swish");
  if (known) return {};
  return unsupported_model(json.where(), "key '{}': activation {} can't be run; {} models use {}", key,
                           shown(*name), architecture_name(family), gelu ? "gelu_pytorch_tanh" : "silu");
}

// layer_types, one of "full_attention" and "sliding_attention" for each layer. False when absent.
Result<bool> read_layer_types(const JsonView& json, int64_t window, ModelConfig& config) {
  const nlohmann::json* const types = json.find("layer_types");
  if (types == nullptr) return false;
  if (!types->is_array() || types->size() != config.layer_window.size()) {
    return corrupt_file(json.where(), "key 'layer_types' is no list of {} entries", config.num_layers);
  }
  for (size_t i = 0; i < types->size(); ++i) {
    const nlohmann::json& type = (*types)[i];
    const std::string name = type.is_string() ? type.get<std::string>() : type.type_name();
    if (name != "full_attention" && name != "sliding_attention") {
      return unsupported_model(json.where(), "key 'layer_types': layer {} has {}, which can't be run", i,
                               shown(name));
    }
    config.layer_window[i] = name == "sliding_attention" ? window : 0;
  }
  return true;
}

// sliding_window, or 0 where the family has it off. The gates differ from family to family (transformers).
Result<int64_t> read_window(const JsonView& json, Architecture family) {
  switch (family) {
    case Architecture::kLlama:
    case Architecture::kGranite:
    case Architecture::kGpt2:
      return int64_t{0};
    case Architecture::kQwen2:
    case Architecture::kQwen3:
    case Architecture::kQwen3Moe:
      if (!PAGODA_TRY(json.boolean("use_sliding_window")).value_or(false)) return int64_t{0};
      break;
    case Architecture::kPhi3:
    case Architecture::kStarcoder2:
    case Architecture::kMixtral:
      if (!json.has_key("sliding_window")) return int64_t{0};
      break;
    case Architecture::kMistral:
    case Architecture::kGemma2:
    case Architecture::kGemma3:
      break;
  }
  if (json.has_key("sliding_window") && json.find("sliding_window") == nullptr) return int64_t{0};
  return positive_integer(json, "sliding_window", 4096);
}

// Which layers look back only `sliding_window` tokens.
Result<void> read_windows(const JsonView& json, ModelConfig& config) {
  auto& windows = config.layer_window;
  windows.assign(static_cast<size_t>(config.num_layers), 0);
  const int64_t window = PAGODA_TRY(read_window(json, config.architecture));
  if (window == 0) return {};
  if (PAGODA_TRY(read_layer_types(json, window, config))) return {};
  switch (config.architecture) {
    case Architecture::kQwen2:
    case Architecture::kQwen3: {
      const int64_t first = PAGODA_TRY(json.integer("max_window_layers")).value_or(28);
      for (size_t i = 0; i < windows.size(); ++i) windows[i] = static_cast<int64_t>(i) >= first ? window : 0;
      break;
    }
    case Architecture::kGemma2:
      for (size_t i = 0; i < windows.size(); i += 2) windows[i] = window;
      break;
    case Architecture::kGemma3: {
      const int64_t old_key = PAGODA_TRY(positive_integer(json, "_sliding_window_pattern", 6));
      const int64_t period = PAGODA_TRY(positive_integer(json, "sliding_window_pattern", old_key));
      for (size_t i = 0; i < windows.size(); ++i)
        windows[i] = static_cast<int64_t>(i + 1) % period != 0 ? window : 0;
      break;
    }
    default:
      windows.assign(windows.size(), window);
  }
  return {};
}

Result<void> read_biases(const JsonView& json, ModelConfig& config) {
  const bool attention = PAGODA_TRY(json.boolean("attention_bias")).value_or(false);
  switch (config.architecture) {
    case Architecture::kLlama:
    case Architecture::kGranite:
      config.mlp_bias = PAGODA_TRY(json.boolean("mlp_bias")).value_or(false);
      config.qkv_bias = config.attention_out_bias = attention;
      break;
    case Architecture::kQwen2:
      config.qkv_bias = true;
      break;
    case Architecture::kQwen3:
    case Architecture::kQwen3Moe:
    case Architecture::kGemma2:
    case Architecture::kGemma3:
      config.qkv_bias = config.attention_out_bias = attention;
      break;
    case Architecture::kStarcoder2:
      config.qkv_bias = config.attention_out_bias = config.mlp_bias =
          PAGODA_TRY(json.boolean("use_bias")).value_or(true);
      break;
    case Architecture::kGpt2:
      config.qkv_bias = config.attention_out_bias = config.mlp_bias = true;
      break;
    case Architecture::kMistral:
    case Architecture::kMixtral:
    case Architecture::kPhi3:
      break;
  }
  return {};
}

// A positive number, absent `fallback`, null 0.
Result<float> soft_cap(const JsonView& json, const char* key, double fallback) {
  if (json.has_key(key) && json.find(key) == nullptr) return 0.0f;
  const double cap = PAGODA_TRY(json.real(key)).value_or(fallback);
  if (!(cap >= 0 && cap <= 1e6))
    return corrupt_file(json.where(), "key '{}' is {}, not in 0 to 1e6", key, cap);
  return static_cast<float>(cap);
}

Result<void> read_gemma(const JsonView& json, ModelConfig& config) {
  config.post_norms = config.norm_weight_plus_one = true;
  config.qk_norm = config.architecture == Architecture::kGemma3;
  config.embedding_scale = std::sqrt(static_cast<float>(config.hidden_size));
  const double scaled_by = PAGODA_TRY(json.real("query_pre_attn_scalar")).value_or(256.0);
  config.attention_scale = static_cast<float>(1.0 / std::sqrt(scaled_by));
  const bool gemma2 = config.architecture == Architecture::kGemma2;
  config.attention_softcap = PAGODA_TRY(soft_cap(json, "attn_logit_softcapping", gemma2 ? 50.0 : 0.0));
  config.logit_softcap = PAGODA_TRY(soft_cap(json, "final_logit_softcapping", gemma2 ? 30.0 : 0.0));
  if (PAGODA_TRY(json.boolean("use_bidirectional_attention")).value_or(false)) {
    return unsupported_model(json.where(), "key 'use_bidirectional_attention' can't be run");
  }
  return {};
}

Result<void> read_granite(const JsonView& json, ModelConfig& config) {
  struct Multiplier {
    const char* key;
    float* value;
  };
  float logits_scaling = 1.0f;
  config.attention_scale = 1.0f;
  for (const Multiplier& multiplier : {Multiplier{"embedding_multiplier", &config.embedding_scale},
                                       Multiplier{"attention_multiplier", &config.attention_scale},
                                       Multiplier{"residual_multiplier", &config.residual_scale},
                                       Multiplier{"logits_scaling", &logits_scaling}}) {
    const double value = PAGODA_TRY(json.real(multiplier.key)).value_or(1.0);
    if (!(value >= 1e-6 && value <= 1e6)) {
      return corrupt_file(json.where(), "key '{}' is {}, not in 1e-6 to 1e6", multiplier.key, value);
    }
    *multiplier.value = static_cast<float>(value);
  }
  config.logit_scale = 1.0f / logits_scaling;
  return {};
}

Result<void> read_starcoder2(const JsonView& json, ModelConfig& config) {
  config.norm_kind = kernels::NormKind::kLayer;
  config.gated_feed_forward = false;
  struct Setting {
    const char *key, *value;
  };
  for (const Setting& setting : {Setting{"norm_type", "layer_norm"}, Setting{"mlp_type", "default"}}) {
    const auto value = PAGODA_TRY(json.string(setting.key));
    if (value && *value != setting.value) {
      return unsupported_model(json.where(), "key '{}' is {}; only {} can be run", setting.key, shown(*value),
                               setting.value);
    }
  }
  return {};
}

Result<void> read_gpt2(const JsonView& json, ModelConfig& config) {
  config.norm_kind = kernels::NormKind::kLayer;
  config.gated_feed_forward = false;
  config.learned_positions = true;
  if (!PAGODA_TRY(json.boolean("scale_attn_weights")).value_or(true)) config.attention_scale = 1.0f;
  if (PAGODA_TRY(json.boolean("scale_attn_by_inverse_layer_idx")).value_or(false)) {
    return unsupported_model(json.where(), "key 'scale_attn_by_inverse_layer_idx' can't be run");
  }
  return {};
}

// mlp_only_layers: layers without experts.
Result<void> drop_dense_layers(const JsonView& json, std::vector<uint8_t>& layers) {
  const nlohmann::json* const dense = json.find("mlp_only_layers");
  if (dense == nullptr) return {};
  if (!dense->is_array()) return corrupt_file(json.where(), "key 'mlp_only_layers' is no list");
  for (const nlohmann::json& layer : *dense) {
    const int64_t index = layer.is_number_integer() ? layer.get<int64_t>() : -1;
    if (index < 0 || index >= static_cast<int64_t>(layers.size())) {
      return corrupt_file(json.where(), "key 'mlp_only_layers' names something else than layers 0 to {}",
                          layers.size() - 1);
    }
    layers[static_cast<size_t>(index)] = 0;
  }
  return {};
}

Result<void> read_experts(const JsonView& json, ModelConfig& config) {
  const bool mixtral = config.architecture == Architecture::kMixtral;
  MoeConfig& moe = config.moe;
  moe.num_experts =
      static_cast<int>(PAGODA_TRY(positive_integer(json, mixtral ? "num_local_experts" : "num_experts")));
  moe.experts_per_token = static_cast<int>(PAGODA_TRY(positive_integer(json, "num_experts_per_tok")));
  moe.intermediate_size =
      mixtral ? config.intermediate_size : PAGODA_TRY(positive_integer(json, "moe_intermediate_size"));
  moe.renormalise = mixtral || PAGODA_TRY(json.boolean("norm_topk_prob")).value_or(false);
  moe.layers.assign(static_cast<size_t>(config.num_layers), 1);
  if (mixtral) return {};
  const int64_t step = PAGODA_TRY(positive_integer(json, "decoder_sparse_step", 1));
  for (size_t i = 0; i < moe.layers.size(); ++i) moe.layers[i] = static_cast<int64_t>(i + 1) % step == 0;
  return drop_dense_layers(json, moe.layers);
}

}  // namespace

bool is_gemma(Architecture architecture) {
  return architecture == Architecture::kGemma2 || architecture == Architecture::kGemma3;
}

bool tied_by_default(Architecture architecture) {
  return is_gemma(architecture) || architecture == Architecture::kGpt2 ||
         architecture == Architecture::kStarcoder2;
}

Result<void> read_hf_family(const JsonView& json, ModelConfig& config) {
  PAGODA_TRY(read_activation(json, config));
  PAGODA_TRY(read_windows(json, config));
  PAGODA_TRY(read_biases(json, config));
  config.attention_scale = 1.0f / std::sqrt(static_cast<float>(config.head_dim));
  switch (config.architecture) {
    case Architecture::kQwen3:
      config.qk_norm = true;
      return {};
    case Architecture::kQwen3Moe:
      config.qk_norm = true;
      return read_experts(json, config);
    case Architecture::kMixtral:
      return read_experts(json, config);
    case Architecture::kGemma2:
    case Architecture::kGemma3:
      return read_gemma(json, config);
    case Architecture::kGranite:
      return read_granite(json, config);
    case Architecture::kStarcoder2:
      return read_starcoder2(json, config);
    case Architecture::kGpt2:
      return read_gpt2(json, config);
    case Architecture::kLlama:
    case Architecture::kMistral:
    case Architecture::kQwen2:
    case Architecture::kPhi3:
      return {};
  }
  return {};
}

}  // namespace pagoda::model
