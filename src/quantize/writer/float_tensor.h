// Tensors that stay floats, converted while they are written.
#pragma once

#include <string>

#include "base/result.h"
#include "model/checkpoint.h"
#include "model/loader/model_check.h"
#include "quantize/writer/tensor_bytes.h"

namespace pagoda::quantize {

// "BF16" where the model's own embedding is, else "F16".
std::string float_dtype_of(const model::Checkpoint& checkpoint);

// The tensor in `dtype` ("F16" or "BF16"), under its own name. Writing it is kUnsupportedModel for a value
// that the type can't hold.
Result<OutTensor> float_tensor(const model::ModelConfig& config, const model::TensorSource& tensors,
                               const model::RequiredTensor& tensor, const std::string& dtype);

}  // namespace pagoda::quantize
