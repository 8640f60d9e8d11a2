// A Hugging Face folder as a Checkpoint.
#pragma once

#include <string>

#include "base/result.h"
#include "model/checkpoint.h"

namespace pagoda::model {

Result<Checkpoint> open_hf_checkpoint(const std::string& folder);

}  // namespace pagoda::model
