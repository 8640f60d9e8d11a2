// How the families whose Hugging Face checkpoints don't look like Llama's name and fuse their tensors.
#pragma once

#include <vector>

#include "model/config.h"
#include "model/loader/view_source.h"
#include "model/tensor_source.h"

namespace pagoda::model {

// A view for every tensor of `tensors` that the model knows under another name. `config` has passed
// check_config.
std::vector<TensorView> hf_tensor_views(const ModelConfig& config, const TensorSource& tensors);

// Views of what a GGUF file keeps as one under the names that GgufTensorSource gives: qkv, gate and up, all
// experts.
std::vector<TensorView> fused_tensor_views(const ModelConfig& config, const TensorSource& tensors);

}  // namespace pagoda::model
