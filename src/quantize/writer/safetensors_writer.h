// Writes the container format safetensors (model/loader/safetensors_file.h reads it).
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "quantize/writer/tensor_bytes.h"

namespace pagoda::quantize {

// The tensors lie in the file in the order given, which should keep wide types first: every tensor then
// begins at a multiple of its type's size. The file appears complete or not at all.
Result<void> write_safetensors(const std::string& path, std::span<const OutTensor> tensors);

}  // namespace pagoda::quantize
