// POST /infill: llama-server's shape of filling in the middle, which editors' plugins speak.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/openai/request.h"
#include "base/result.h"

namespace pagoda::openai {

struct InfillFile {
  std::string name, text;
};

struct InfillRequest {
  CommonFields common;         // n is 1; without n_predict the output may take the rest of the context
  std::string prefix, suffix;  // `prompt`, the start of the cursor's line, is part of the prefix
  std::vector<InfillFile> files;
  bool stop_at_suffix = true;
  bool return_tokens = false;
  std::vector<std::string> response_fields;  // of the answer, "timings/prompt_n"; empty: all
};

Result<InfillRequest> parse_infill_request(std::string_view body, const ParseOptions& options);

}  // namespace pagoda::openai
