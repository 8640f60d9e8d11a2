// A GGUF file (or split set) as a Checkpoint.
#pragma once

#include <string>

#include "base/result.h"
#include "model/checkpoint.h"

namespace pagoda::model {

Result<Checkpoint> open_gguf_checkpoint(const std::string& path);

}  // namespace pagoda::model
