#include "model/loader/hf_rope.h"

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "model/loader/file_error.h"

namespace pagoda::model {
namespace {

// partial_rotary_factor: the part of a head that RoPE turns.
Result<void> read_partial(const JsonView& json, ModelConfig& config) {
  const auto factor = PAGODA_TRY(json.real("partial_rotary_factor"));
  if (!factor || *factor == 1.0) return {};
  if (config.architecture != Architecture::kPhi3) {
    return unsupported_model(json.where(), "key 'partial_rotary_factor' can't be run");
  }
  if (!(*factor > 0 && *factor < 1)) {
    return corrupt_file(json.where(), "key 'partial_rotary_factor' is {}, not in 0 to 1", *factor);
  }
  config.rotary_dim = static_cast<int>(static_cast<double>(config.head_dim) * *factor);
  return {};
}

Result<std::vector<float>> read_factors(const JsonView& json, const char* key) {
  const nlohmann::json* const list = json.find(key);
  if (list == nullptr || !list->is_array() || list->size() > 65536) {
    return corrupt_file(json.where(), "key '{}' is missing or no list", key);
  }
  std::vector<float> factors;
  for (const nlohmann::json& factor : *list) {
    if (!factor.is_number())
      return corrupt_file(json.where(), "key '{}' lists something else than numbers", key);
    factors.push_back(factor.get<float>());
  }
  return factors;
}

// Source: Ding et al. 2024 (LongRoPE); the magnitude as transformers computes it.
Result<void> read_long_rope(const JsonView& json, const ModelConfig& config, RopeConfig& rope) {
  rope.scaling = RopeConfig::Scaling::kLongRope;
  rope.short_factors = PAGODA_TRY(read_factors(json, "short_factor"));
  rope.long_factors = PAGODA_TRY(read_factors(json, "long_factor"));
  const auto original = PAGODA_TRY(json.integer("original_max_position_embeddings"));
  if (original) rope.original_max_positions = *original;
  if (rope.original_max_positions < 1) {
    return corrupt_file(json.where(), "key 'original_max_position_embeddings' is {}",
                        rope.original_max_positions);
  }
  const auto longest = static_cast<double>(config.max_positions);
  const double stretch = longest / static_cast<double>(rope.original_max_positions);
  rope.magnitude =
      stretch <= 1
          ? 1.0
          : std::sqrt(1 + std::log(stretch) / std::log(static_cast<double>(rope.original_max_positions)));
  const auto stated = PAGODA_TRY(json.real("attention_factor"));
  if (stated) rope.magnitude = *stated;
  return {};
}

// One rope_scaling or rope_parameters object.
Result<void> read_scaling(const JsonView& json, ModelConfig& config, RopeConfig& rope) {
  const auto old_type = PAGODA_TRY(json.string("type"));
  const auto new_type = PAGODA_TRY(json.string("rope_type"));
  const std::string type = new_type ? *new_type : old_type.value_or("default");
  rope.theta = PAGODA_TRY(json.real("rope_theta")).value_or(rope.theta);
  PAGODA_TRY(read_partial(json, config));
  if (type == "default") return {};
  const bool phi3 = config.architecture == Architecture::kPhi3;
  if (phi3 && (type == "longrope" || type == "su"))
    return read_long_rope(json, config, rope);  // su: the old name
  if (type != "linear" && type != "llama3") {
    return unsupported_model(json.where(),
                             "RoPE type {} can't be run; supported are default, linear, llama3{}",
                             shown(type), phi3 ? ", longrope" : "");
  }
  const auto factor = PAGODA_TRY(json.real("factor"));
  if (!factor) return corrupt_file(json.where(), "key 'factor' is missing");
  rope.factor = *factor;
  rope.scaling = RopeConfig::Scaling::kLinear;
  if (type == "linear") return {};
  rope.scaling = RopeConfig::Scaling::kLlama3;
  const auto low = PAGODA_TRY(json.real("low_freq_factor"));
  const auto high = PAGODA_TRY(json.real("high_freq_factor"));
  const auto original = PAGODA_TRY(json.integer("original_max_position_embeddings"));
  if (!low || !high || !original) {
    return corrupt_file(
        json.where(),
        "RoPE type llama3 needs low_freq_factor, high_freq_factor and original_max_position_embeddings");
  }
  rope.low_freq_factor = *low;
  rope.high_freq_factor = *high;
  rope.original_max_positions = *original;
  return {};
}

}  // namespace

Result<void> read_hf_rope(const JsonView& json, ModelConfig& config) {
  if (config.architecture == Architecture::kGpt2) return {};
  const bool gemma = config.architecture == Architecture::kGemma3;
  config.rotary_dim = config.head_dim;
  config.rope.theta = PAGODA_TRY(json.real("rope_theta")).value_or(gemma ? 1e6 : 10000.0);
  config.has_rope_sliding = gemma;
  config.rope_sliding.theta = PAGODA_TRY(json.real("rope_local_base_freq")).value_or(10000.0);
  PAGODA_TRY(read_partial(json, config));
  config.rope.original_max_positions =
      PAGODA_TRY(json.integer("original_max_position_embeddings")).value_or(config.max_positions);
  const auto parameters = PAGODA_TRY(json.object("rope_parameters"));
  if (!parameters) {
    const auto scaling = PAGODA_TRY(json.object("rope_scaling"));
    if (scaling) PAGODA_TRY(read_scaling(*scaling, config, config.rope));
    return {};
  }
  const bool per_layer_type =
      parameters->find("full_attention") != nullptr || parameters->find("sliding_attention") != nullptr;
  if (!per_layer_type) return read_scaling(*parameters, config, config.rope);
  const auto full = PAGODA_TRY(parameters->object("full_attention"));
  if (full) PAGODA_TRY(read_scaling(*full, config, config.rope));
  const auto sliding = PAGODA_TRY(parameters->object("sliding_attention"));
  if (!sliding) return {};
  config.has_rope_sliding = true;
  return read_scaling(*sliding, config, config.rope_sliding);
}

}  // namespace pagoda::model
