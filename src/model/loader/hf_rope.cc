#include "model/loader/hf_rope.h"

#include <optional>
#include <string>

#include "model/loader/file_error.h"

namespace pagoda::model {
namespace {

// One rope_scaling or rope_parameters object.
Result<void> read_scaling(const JsonView& json, RopeConfig& rope) {
  const auto old_type = PAGODA_TRY(json.string("type"));
  const auto new_type = PAGODA_TRY(json.string("rope_type"));
  const std::string type = new_type ? *new_type : old_type.value_or("default");
  rope.theta = PAGODA_TRY(json.real("rope_theta")).value_or(rope.theta);
  if (PAGODA_TRY(json.real("partial_rotary_factor")).value_or(1.0) != 1.0) {
    return unsupported_model(json.where(), "key 'partial_rotary_factor' can't be run");
  }
  if (type == "default") return {};
  if (type != "linear" && type != "llama3") {
    return unsupported_model(json.where(), "RoPE type {} can't be run; supported are default, linear, llama3",
                             shown(type));
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
  const bool gemma = config.architecture == Architecture::kGemma3;
  config.rope.theta = PAGODA_TRY(json.real("rope_theta")).value_or(gemma ? 1e6 : 10000.0);
  config.has_rope_sliding = gemma;
  config.rope_sliding.theta = PAGODA_TRY(json.real("rope_local_base_freq")).value_or(10000.0);
  if (PAGODA_TRY(json.real("partial_rotary_factor")).value_or(1.0) != 1.0) {
    return unsupported_model(json.where(), "key 'partial_rotary_factor' can't be run");
  }
  const auto parameters = PAGODA_TRY(json.object("rope_parameters"));
  if (!parameters) {
    const auto scaling = PAGODA_TRY(json.object("rope_scaling"));
    if (scaling) PAGODA_TRY(read_scaling(*scaling, config.rope));
    return {};
  }
  const bool per_layer_type =
      parameters->find("full_attention") != nullptr || parameters->find("sliding_attention") != nullptr;
  if (!per_layer_type) return read_scaling(*parameters, config.rope);
  const auto full = PAGODA_TRY(parameters->object("full_attention"));
  if (full) PAGODA_TRY(read_scaling(*full, config.rope));
  const auto sliding = PAGODA_TRY(parameters->object("sliding_attention"));
  if (!sliding) return {};
  config.has_rope_sliding = true;
  return read_scaling(*sliding, config.rope_sliding);
}

}  // namespace pagoda::model
