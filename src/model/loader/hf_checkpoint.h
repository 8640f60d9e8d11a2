// A Hugging Face folder as a Checkpoint.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "model/checkpoint.h"
#include "model/loader/quantization_config.h"

namespace pagoda::model {

// `asked`: the method of quantisation that the folder has to have, if any. kInvalidArgument when it has
// another.
Result<Checkpoint> open_hf_checkpoint(const std::string& folder, std::optional<QuantMethod> asked);

}  // namespace pagoda::model
