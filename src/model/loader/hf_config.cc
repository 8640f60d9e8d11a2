#include "model/loader/hf_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "model/loader/file_error.h"
#include "model/loader/hf_rope.h"

namespace pagoda::model {
namespace {

constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();

struct KnownArchitecture {
  std::string_view class_name;
  Architecture architecture;
};
constexpr std::array<KnownArchitecture, 6> kKnown = {
    {{"LlamaForCausalLM", Architecture::kLlama},
     {"MistralForCausalLM", Architecture::kMistral},
     {"Qwen2ForCausalLM", Architecture::kQwen2},
     {"Qwen3ForCausalLM", Architecture::kQwen3},
     {"Gemma3ForCausalLM", Architecture::kGemma3},
     {"Gemma3ForConditionalGeneration", Architecture::kGemma3}}};

Result<Architecture> read_architecture(const JsonView& root) {
  const nlohmann::json* const names = root.find("architectures");
  const bool has_name = names != nullptr && names->is_array() && !names->empty() && (*names)[0].is_string();
  if (!has_name) {
    return unsupported_model(root.where(), "names no architecture in 'architectures'; supported are {}",
                             supported_architectures());
  }
  const auto& name = (*names)[0].get_ref<const std::string&>();
  for (const KnownArchitecture& known : kKnown) {
    if (name == known.class_name) return known.architecture;
  }
  return unsupported_model(root.where(), "architecture {} can't be run; supported are {}", shown(name),
                           supported_architectures());
}

// A 32-bit number from 1 on; `fallback` when absent, an error when there is none either.
Result<int64_t> positive(const JsonView& json, const char* key,
                         std::optional<int64_t> fallback = std::nullopt) {
  const auto value = PAGODA_TRY(json.integer(key));
  if (!value && fallback) return *fallback;
  if (!value) return corrupt_file(json.where(), "key '{}' is missing", key);
  if (*value < 1 || *value > kMaxInt) {
    return corrupt_file(json.where(), "key '{}' is {}, not in 1 to {}", key, *value, kMaxInt);
  }
  return *value;
}

Result<void> read_sizes(const JsonView& json, ModelConfig& config) {
  // The text part of a multimodal Gemma 3 folder leaves out what equals the defaults of its class.
  const bool gemma = config.architecture == Architecture::kGemma3;
  const auto fallback = [&](int64_t value) { return gemma ? std::optional(value) : std::nullopt; };
  config.vocab_size = PAGODA_TRY(positive(json, "vocab_size", fallback(262208)));
  config.hidden_size = PAGODA_TRY(positive(json, "hidden_size", fallback(2304)));
  config.intermediate_size = PAGODA_TRY(positive(json, "intermediate_size", fallback(9216)));
  config.num_layers = static_cast<int>(PAGODA_TRY(positive(json, "num_hidden_layers", fallback(26))));
  if (config.num_layers > 4096)
    return corrupt_file(json.where(), "key 'num_hidden_layers' is {}", config.num_layers);
  config.num_heads = static_cast<int>(PAGODA_TRY(positive(json, "num_attention_heads", fallback(8))));
  const int64_t kv_heads = PAGODA_TRY(positive(json, "num_key_value_heads", gemma ? 4 : config.num_heads));
  config.num_kv_heads = static_cast<int>(kv_heads);
  config.max_positions = PAGODA_TRY(positive(json, "max_position_embeddings", fallback(131072)));
  const auto head_dim = PAGODA_TRY(json.integer("head_dim"));
  if (!head_dim && !gemma && config.hidden_size % config.num_heads != 0) {
    return corrupt_file(json.where(),
                        "key 'head_dim' is missing, and {} heads don't divide the hidden size {}",
                        config.num_heads, config.hidden_size);
  }
  const int64_t default_dim = gemma ? 256 : std::max<int64_t>(config.hidden_size / config.num_heads, 1);
  config.head_dim = static_cast<int>(PAGODA_TRY(positive(json, "head_dim", default_dim)));
  const double eps = PAGODA_TRY(json.real("rms_norm_eps")).value_or(1e-6);
  config.rms_norm_eps = static_cast<float>(eps);
  return {};
}

Result<void> check_activation(const JsonView& json, Architecture architecture) {
  const bool gemma = architecture == Architecture::kGemma3;
  const std::string expected = gemma ? "gelu_pytorch_tanh" : "silu";
  auto name = PAGODA_TRY(json.string(gemma ? "hidden_activation" : "hidden_act"));
  if (!name || *name == expected || (!gemma && *name == "swish")) return {};
  return unsupported_model(json.where(), "activation {} can't be run; {} models use {}", shown(*name),
                           architecture_name(architecture), expected);
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

// Which layers look back only `sliding_window` tokens. The gates differ from family to family (transformers).
Result<void> read_windows(const JsonView& json, ModelConfig& config) {
  auto& windows = config.layer_window;
  windows.assign(static_cast<size_t>(config.num_layers), 0);
  if (config.architecture == Architecture::kLlama) return {};
  const bool off = json.has_key("sliding_window") && json.find("sliding_window") == nullptr;
  const bool qwen =
      config.architecture == Architecture::kQwen2 || config.architecture == Architecture::kQwen3;
  if (off || (qwen && !PAGODA_TRY(json.boolean("use_sliding_window")).value_or(false))) return {};
  const int64_t window = PAGODA_TRY(positive(json, "sliding_window", 4096));
  if (PAGODA_TRY(read_layer_types(json, window, config))) return {};
  if (config.architecture == Architecture::kMistral) {
    windows.assign(windows.size(), window);
  } else if (qwen) {
    const int64_t first = PAGODA_TRY(json.integer("max_window_layers")).value_or(28);
    for (size_t i = 0; i < windows.size(); ++i) windows[i] = static_cast<int64_t>(i) >= first ? window : 0;
  } else {
    const int64_t old_key = PAGODA_TRY(positive(json, "_sliding_window_pattern", 6));
    const int64_t period = PAGODA_TRY(positive(json, "sliding_window_pattern", old_key));
    for (size_t i = 0; i < windows.size(); ++i)
      windows[i] = static_cast<int64_t>(i + 1) % period != 0 ? window : 0;
  }
  return {};
}

Result<void> read_biases(const JsonView& json, ModelConfig& config) {
  const bool attention = PAGODA_TRY(json.boolean("attention_bias")).value_or(false);
  switch (config.architecture) {
    case Architecture::kLlama:
      config.mlp_bias = PAGODA_TRY(json.boolean("mlp_bias")).value_or(false);
      config.qkv_bias = config.attention_out_bias = attention;
      break;
    case Architecture::kQwen2:
      config.qkv_bias = true;
      break;
    case Architecture::kQwen3:
    case Architecture::kGemma3:
      config.qkv_bias = config.attention_out_bias = attention;
      break;
    case Architecture::kMistral:
      break;
  }
  return {};
}

Result<void> read_gemma3(const JsonView& json, ModelConfig& config) {
  config.post_norms = config.norm_weight_plus_one = true;
  config.activation = kernels::GatedActivation::kGeluTanh;
  config.embedding_scale = std::sqrt(static_cast<float>(config.hidden_size));
  const double scaled_by = PAGODA_TRY(json.real("query_pre_attn_scalar")).value_or(256.0);
  config.attention_scale = static_cast<float>(1.0 / std::sqrt(scaled_by));
  for (const char* const key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    if (json.find(key) != nullptr) return unsupported_model(json.where(), "key '{}' can't be run", key);
  }
  if (PAGODA_TRY(json.boolean("use_bidirectional_attention")).value_or(false)) {
    return unsupported_model(json.where(), "key 'use_bidirectional_attention' can't be run");
  }
  return {};
}

Result<TokenId> token_id(const JsonView& json, const char* key, const nlohmann::json& value) {
  if (!value.is_number_integer() || value.get<int64_t>() < 0 || value.get<int64_t>() > kMaxInt) {
    return corrupt_file(json.where(), "key '{}' holds something else than token ids", key);
  }
  return TokenId{static_cast<int32_t>(value.get<int64_t>())};
}

// bos_token_id and eos_token_id, each a number or a list; what is absent stays as it is.
Result<void> read_token_ids(const JsonView& json, ModelConfig& config) {
  if (const nlohmann::json* const bos = json.find("bos_token_id")) {
    config.bos =
        PAGODA_TRY(token_id(json, "bos_token_id", bos->is_array() && !bos->empty() ? (*bos)[0] : *bos));
  }
  const nlohmann::json* const eos = json.find("eos_token_id");
  if (eos == nullptr) return {};
  config.eos.clear();
  if (!eos->is_array()) {
    config.eos.push_back(PAGODA_TRY(token_id(json, "eos_token_id", *eos)));
    return {};
  }
  for (const nlohmann::json& id : *eos) config.eos.push_back(PAGODA_TRY(token_id(json, "eos_token_id", id)));
  return {};
}

Result<void> check_default(const JsonView& root, std::string_view key, const std::optional<double>& value,
                           double low, double high) {
  if (!value || (*value >= low && *value <= high)) return {};
  return corrupt_file(root.where(), "key '{}' is {}, not in {} to {}", key, *value, low, high);
}

}  // namespace

Result<ModelConfig> hf_model_config(const JsonView& root) {
  ModelConfig config;
  config.architecture = PAGODA_TRY(read_architecture(root));
  const bool gemma = config.architecture == Architecture::kGemma3;
  const auto nested = gemma ? PAGODA_TRY(root.object("text_config")) : std::nullopt;
  const JsonView& json = nested ? *nested : root;

  PAGODA_TRY(read_sizes(json, config));
  PAGODA_TRY(check_activation(json, config.architecture));
  PAGODA_TRY(read_windows(json, config));
  PAGODA_TRY(read_biases(json, config));
  PAGODA_TRY(read_hf_rope(json, config));
  config.attention_scale = 1.0f / std::sqrt(static_cast<float>(config.head_dim));
  config.qk_norm = gemma || config.architecture == Architecture::kQwen3;
  if (gemma) PAGODA_TRY(read_gemma3(json, config));
  const auto tied = PAGODA_TRY(root.boolean("tie_word_embeddings"));
  const auto nested_tied = PAGODA_TRY(json.boolean("tie_word_embeddings"));
  config.tied_embeddings = tied ? *tied : nested_tied.value_or(gemma);
  PAGODA_TRY(read_token_ids(json, config));
  if (nested) PAGODA_TRY(read_token_ids(root, config));
  return config;
}

Result<GenerationDefaults> hf_generation_defaults(const JsonView& root, ModelConfig& config) {
  PAGODA_TRY(read_token_ids(root, config));
  GenerationDefaults defaults;
  defaults.temperature = PAGODA_TRY(root.real("temperature"));
  defaults.top_p = PAGODA_TRY(root.real("top_p"));
  defaults.min_p = PAGODA_TRY(root.real("min_p"));
  defaults.repetition_penalty = PAGODA_TRY(root.real("repetition_penalty"));
  defaults.top_k = PAGODA_TRY(root.integer("top_k"));
  defaults.max_new_tokens = PAGODA_TRY(root.integer("max_new_tokens"));
  PAGODA_TRY(check_default(root, "temperature", defaults.temperature, 0, 100));
  PAGODA_TRY(check_default(root, "top_p", defaults.top_p, 0, 1));
  PAGODA_TRY(check_default(root, "min_p", defaults.min_p, 0, 1));
  PAGODA_TRY(check_default(root, "repetition_penalty", defaults.repetition_penalty, 1e-6, 1e6));
  if (defaults.top_k.value_or(0) < -1)
    return corrupt_file(root.where(), "key 'top_k' is {}", *defaults.top_k);
  if (defaults.max_new_tokens.value_or(1) < 1) {
    return corrupt_file(root.where(), "key 'max_new_tokens' is {}", *defaults.max_new_tokens);
  }
  return defaults;
}

}  // namespace pagoda::model
