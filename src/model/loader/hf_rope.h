// The many spellings of RoPE settings in config.json: rope_theta and rope_scaling (transformers 4),
// rope_parameters (transformers 5, for Gemma 3 one set for each kind of layer).
#pragma once

#include "base/result.h"
#include "model/config.h"
#include "model/loader/json_file.h"

namespace pagoda::model {

// Fills rope, rotary_dim, and rope_sliding for Gemma 3; nothing for a family without RoPE. kUnsupportedModel
// for a scaling type other than none, linear, llama3 and longrope.
Result<void> read_hf_rope(const JsonView& json, ModelConfig& config);

}  // namespace pagoda::model
