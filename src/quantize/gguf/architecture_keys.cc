#include "quantize/gguf/architecture_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

namespace pagoda::quantize {
namespace {

using model::Architecture;
using model::ModelConfig;
using Scaling = model::RopeConfig::Scaling;

constexpr int kUsualGemma3Period = 6;

std::string_view gguf_name(Architecture architecture) {
  if (architecture == Architecture::kMistral || architecture == Architecture::kMixtral) return "llama";
  if (architecture == Architecture::kQwen3Moe) return "qwen3moe";
  return model::architecture_name(architecture);
}

bool is_gemma(const ModelConfig& config) {
  return config.architecture == Architecture::kGemma2 || config.architecture == Architecture::kGemma3;
}

// One window for all layers, or none.
bool has_one_window(const ModelConfig& config) {
  const auto& windows = config.layer_window;
  return std::all_of(windows.begin(), windows.end(), [&](int64_t window) { return window == windows[0]; });
}

int64_t window_of(const ModelConfig& config) {
  const auto& windows = config.layer_window;
  return windows.empty() ? 0 : *std::max_element(windows.begin(), windows.end());
}

// Every `period`-th layer sees everything, the others the window; 0 when that is not how they take turns.
int window_period(const ModelConfig& config) {
  const auto& windows = config.layer_window;
  const int64_t window = window_of(config);
  const auto first_full = std::find(windows.begin(), windows.end(), int64_t{0});
  const auto period = first_full - windows.begin() + 1;
  for (size_t i = 0; i < windows.size(); ++i) {
    const bool full = static_cast<std::ptrdiff_t>(i + 1) % period == 0;
    if (windows[i] != (full ? 0 : window)) return 0;
  }
  return static_cast<int>(period);
}

bool can_say_windows(const ModelConfig& config) {
  if (window_of(config) == 0) return config.architecture != Architecture::kGemma2;
  switch (config.architecture) {
    case Architecture::kLlama:
    case Architecture::kMistral:
    case Architecture::kMixtral:
    case Architecture::kPhi3:
      return has_one_window(config);
    case Architecture::kGemma2:
      return window_period(config) == 2;
    case Architecture::kGemma3:
      return window_period(config) != 0;
    default:
      return false;
  }
}

bool can_say_rope(const ModelConfig& config) {
  if (config.learned_positions) return true;
  if (config.has_rope_sliding && config.rope_sliding.scaling != Scaling::kNone) return false;
  switch (config.rope.scaling) {
    case Scaling::kNone:
    case Scaling::kLinear:
      return true;
    case Scaling::kLlama3:
      return config.architecture == Architecture::kLlama || config.architecture == Architecture::kMistral;
    case Scaling::kLongRope:
      return config.architecture == Architecture::kPhi3;
  }
  return false;
}

// Gemma's files have no key for it: readers know the head dimension, and the 27B models by their layers.
bool can_say_attention_scale(const ModelConfig& config) {
  if (config.architecture == Architecture::kGranite) return true;
  int64_t scaled_by = config.head_dim;
  const int layers_of_27b = config.architecture == Architecture::kGemma2 ? 46 : 62;
  if (is_gemma(config) && config.num_layers == layers_of_27b) {
    scaled_by = config.hidden_size / config.num_heads;
  }
  const float known = 1.0f / std::sqrt(static_cast<float>(scaled_by));
  return std::fabs(config.attention_scale - known) <= 1e-5f * known;
}

// Files of these families have a place for biases; those of others have none.
bool can_say_biases(const ModelConfig& config) {
  switch (config.architecture) {
    case Architecture::kLlama:
    case Architecture::kGranite:
    case Architecture::kQwen2:
      return true;
    case Architecture::kStarcoder2:
    case Architecture::kGpt2:
      return config.qkv_bias && config.attention_out_bias && config.mlp_bias;
    default:
      return !config.qkv_bias && !config.attention_out_bias && !config.mlp_bias;
  }
}

bool can_say_experts(const ModelConfig& config) {
  const model::MoeConfig& moe = config.moe;
  const bool all =
      std::all_of(moe.layers.begin(), moe.layers.end(), [](uint8_t sparse) { return sparse != 0; });
  return moe.layers.empty() || (all && moe.renormalise);
}

void write_rope(const ModelConfig& config, const std::string& prefix, GgufMetadata& metadata) {
  if (config.learned_positions) return;
  const model::RopeConfig& rope = config.rope;
  metadata.set_u32(prefix + "rope.dimension_count", static_cast<uint32_t>(config.rotary_dim));
  metadata.set_f32(prefix + "rope.freq_base", static_cast<float>(rope.theta));
  if (config.has_rope_sliding) {
    metadata.set_f32(prefix + "rope.freq_base_swa", static_cast<float>(config.rope_sliding.theta));
  }
  if (rope.scaling == Scaling::kLinear) {
    metadata.set_string(prefix + "rope.scaling.type", "linear");
    metadata.set_f32(prefix + "rope.scaling.factor", static_cast<float>(rope.factor));
  } else if (rope.scaling == Scaling::kLongRope) {
    metadata.set_u32(prefix + "rope.scaling.original_context_length",
                     static_cast<uint32_t>(rope.original_max_positions));
    metadata.set_f32(prefix + "rope.scaling.attn_factor", static_cast<float>(rope.magnitude));
  }
}

void write_windows(const ModelConfig& config, const std::string& prefix, GgufMetadata& metadata) {
  const int64_t window = window_of(config);
  if (window == 0) return;
  metadata.set_u32(prefix + "attention.sliding_window", static_cast<uint32_t>(window));
  if (config.architecture != Architecture::kGemma3) return;
  const int period = window_period(config);
  if (period == kUsualGemma3Period) return;
  metadata.set_u32(prefix + "attention.sliding_window_pattern", static_cast<uint32_t>(period));
}

void write_family(const ModelConfig& config, const std::string& prefix, GgufMetadata& metadata) {
  if (is_gemma(config)) {
    if (config.attention_softcap > 0)
      metadata.set_f32(prefix + "attn_logit_softcapping", config.attention_softcap);
    if (config.logit_softcap > 0) metadata.set_f32(prefix + "final_logit_softcapping", config.logit_softcap);
  } else if (config.architecture == Architecture::kGranite) {
    metadata.set_f32(prefix + "attention.scale", config.attention_scale);
    metadata.set_f32(prefix + "embedding_scale", config.embedding_scale);
    metadata.set_f32(prefix + "residual_scale", config.residual_scale);
    metadata.set_f32(prefix + "logit_scale", 1.0f / config.logit_scale);
  }
  const model::MoeConfig& moe = config.moe;
  if (moe.layers.empty()) return;
  metadata.set_u32(prefix + "expert_count", static_cast<uint32_t>(moe.num_experts));
  metadata.set_u32(prefix + "expert_used_count", static_cast<uint32_t>(moe.experts_per_token));
  if (config.architecture != Architecture::kQwen3Moe) return;
  metadata.set_u32(prefix + "expert_feed_forward_length", static_cast<uint32_t>(moe.intermediate_size));
}

void write_generation(const model::GenerationDefaults& defaults, GgufMetadata& metadata) {
  const auto real = [&](const char* key, const std::optional<double>& value) {
    if (value) metadata.set_f32(key, static_cast<float>(*value));
  };
  real("general.sampling.temp", defaults.temperature);
  real("general.sampling.top_p", defaults.top_p);
  real("general.sampling.min_p", defaults.min_p);
  real("general.sampling.penalty_repeat", defaults.repetition_penalty);
  if (defaults.top_k) metadata.set_i32("general.sampling.top_k", static_cast<int32_t>(*defaults.top_k));
}

}  // namespace

Result<void> check_gguf_config(const model::Checkpoint& checkpoint) {
  const ModelConfig& config = checkpoint.config;
  const char* const what = !can_say_windows(config)           ? "these sliding windows"
                           : !can_say_rope(config)            ? "this RoPE scaling"
                           : !can_say_attention_scale(config) ? "this scale of attention"
                           : !can_say_biases(config)          ? "these biases"
                           : !can_say_experts(config)         ? "layers with and without experts"
                                                              : nullptr;
  if (what == nullptr) return {};
  return make_error(ErrorKind::kUnsupportedModel,
                    fmt::format("{}: a GGUF file of architecture {} can't say {}", checkpoint.path,
                                gguf_name(config.architecture), what));
}

void write_architecture_keys(const model::Checkpoint& checkpoint, GgufMetadata& metadata) {
  const ModelConfig& config = checkpoint.config;
  const std::string prefix = std::string(gguf_name(config.architecture)) + ".";
  metadata.set_string("general.architecture", gguf_name(config.architecture));
  metadata.set_string("general.type", "model");
  metadata.set_string("general.name", checkpoint.name);
  write_generation(checkpoint.generation, metadata);
  const auto number = [&](const char* key, int64_t value) {
    metadata.set_u32(prefix + key, static_cast<uint32_t>(value));
  };
  number("vocab_size", config.vocab_size);
  number("block_count", config.num_layers);
  number("context_length", config.max_positions);
  number("embedding_length", config.hidden_size);
  number("feed_forward_length", config.intermediate_size);
  number("attention.head_count", config.num_heads);
  number("attention.head_count_kv", config.num_kv_heads);
  number("attention.key_length", config.head_dim);
  number("attention.value_length", config.head_dim);
  const bool layer_norm = config.norm_kind == kernels::NormKind::kLayer;
  metadata.set_f32(
      prefix + (layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon"),
      config.norm_eps);
  write_rope(config, prefix, metadata);
  write_windows(config, prefix, metadata);
  write_family(config, prefix, metadata);
}

bool interleaves_heads(const ModelConfig& config) {
  switch (config.architecture) {
    case Architecture::kLlama:
    case Architecture::kMistral:
    case Architecture::kMixtral:
    case Architecture::kGranite:
      return true;
    default:
      return false;
  }
}

std::vector<float> llama3_factors(const ModelConfig& config) {
  model::RopeConfig plain = config.rope;
  plain.scaling = Scaling::kNone;
  const auto unscaled = model::rope_inverse_frequencies(plain, config.rotary_dim);
  const auto scaled = model::rope_inverse_frequencies(config.rope, config.rotary_dim);
  std::vector<float> factors;
  for (size_t i = 0; i < scaled.size(); ++i) factors.push_back(static_cast<float>(unscaled[i] / scaled[i]));
  return factors;
}

}  // namespace pagoda::quantize
