// What a GGUF file says about a model that comes from a Hugging Face folder.
#pragma once

#include <vector>

#include "base/result.h"
#include "model/checkpoint.h"
#include "quantize/gguf/metadata.h"

namespace pagoda::quantize {

// kUnsupportedModel in one line for a model that other programs, or this one, would read as another from a
// GGUF file: the format has no words for it.
Result<void> check_gguf_config(const model::Checkpoint& checkpoint);

// general.* and <architecture>.*, for a model that has passed check_gguf_config.
void write_architecture_keys(const model::Checkpoint& checkpoint, GgufMetadata& metadata);

// Llama files keep the rows of q and k heads in interleaved RoPE order.
bool interleaves_heads(const model::ModelConfig& config);

// What the inverse frequencies of "llama3" scaling are divided by, the tensor rope_freqs.weight.
std::vector<float> llama3_factors(const model::ModelConfig& config);

}  // namespace pagoda::quantize
