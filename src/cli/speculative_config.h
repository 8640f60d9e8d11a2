// --speculative-config: vLLM's JSON or a short word.
#pragma once

#include <string>

#include "base/result.h"
#include "engine/engine.h"

namespace pagoda::cli {

// Most drafts of one sequence in one step that the flag takes.
inline constexpr int kMostSpeculativeTokens = 16;

// "off", "ngram", or {"method": "ngram", "num_speculative_tokens": 16, "prompt_lookup_min": 6,
// "prompt_lookup_max": 32}. kInvalidArgument names the key, its value and what it may be.
Result<engine::SpeculationOptions> parse_speculative_config(const std::string& text);

}  // namespace pagoda::cli
