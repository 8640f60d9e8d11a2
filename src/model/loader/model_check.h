// Proves at open that a configuration makes sense and that the file holds exactly the tensors that it needs,
// so that a bad file fails here and not at the first request.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/config.h"
#include "model/tensor_source.h"

namespace pagoda::model {

struct RequiredTensor {
  std::string name;
  int64_t rows = 0;
  int64_t depth = 0;  // 0: a vector of `rows` numbers
};
// Everything that the forward pass reads, by Hugging Face name. `config` must have passed check_config.
std::vector<RequiredTensor> required_tensors(const ModelConfig& config);

// Ranges and divisibility of every number. `where` names the file, for messages. kCorruptFile.
Result<void> check_config(const ModelConfig& config, const std::string& where);

// kCorruptFile for a tensor that is missing or has another shape; kUnsupportedModel for one that the
// architecture does not know: leaving it out would give a model that talks nonsense.
Result<void> check_tensors(const ModelConfig& config, const TensorSource& tensors, const std::string& where);

}  // namespace pagoda::model
