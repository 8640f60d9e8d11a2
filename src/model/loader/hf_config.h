// config.json and generation_config.json of transformers 4 and 5.
#pragma once

#include <string>

#include "base/result.h"
#include "model/checkpoint.h"
#include "model/config.h"
#include "model/loader/json_file.h"

namespace pagoda::model {

// The configuration of config.json, token ids included. Not yet checked by check_config. kUnsupportedModel
// for another architecture, a quantised checkpoint, or a setting that would change the result and can't be
// run.
Result<ModelConfig> hf_model_config(const JsonView& root);

// Sampling defaults of generation_config.json; its token ids go into `config`, over those of config.json.
Result<GenerationDefaults> hf_generation_defaults(const JsonView& root, ModelConfig& config);

}  // namespace pagoda::model
