// config.json and its neighbours as Hugging Face's tools expect them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "model/checkpoint.h"
#include "quantize/options.h"

namespace pagoda::quantize {

// The name that the family's own files have for a tensor ("block_sparse_moe" for Mixtral's "mlp").
std::string stored_name(const model::ModelConfig& config, std::string name);

// kUnsupportedModel for families whose files keep several projections as one matrix.
Result<void> check_family(const model::Checkpoint& checkpoint);

// config.json of the quantised model: that of the folder, or made from what a GGUF file says. `dtype` is
// "F16" or "BF16". kUnsupportedModel when a GGUF file has what config.json can't say.
Result<nlohmann::ordered_json> quantized_config(const model::Checkpoint& checkpoint, const Options& options,
                                                const std::string& dtype);

// For checkpoints that have none of their own: from a GGUF file.
nlohmann::ordered_json tokenizer_config(const model::Checkpoint& checkpoint);
nlohmann::ordered_json generation_config(const model::Checkpoint& checkpoint);

}  // namespace pagoda::quantize
