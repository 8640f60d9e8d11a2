// What config.json says in a family's own words: activation, biases, sliding windows, soft caps, multipliers,
// experts.
#pragma once

#include "base/result.h"
#include "model/config.h"
#include "model/loader/json_file.h"

namespace pagoda::model {

// Everything but sizes, RoPE and token ids, which `config` has already. kUnsupportedModel for a setting that
// would change the result and can't be run.
Result<void> read_hf_family(const JsonView& json, ModelConfig& config);

bool is_gemma(Architecture architecture);
// What an absent tie_word_embeddings means.
bool tied_by_default(Architecture architecture);

}  // namespace pagoda::model
