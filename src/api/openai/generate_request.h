// POST /generate: the simple shape of a minimal service, {prompt, max_tokens, temperature, top_p} -> {text}.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "api/openai/request.h"
#include "api/openai/response.h"
#include "base/result.h"

namespace pagoda::openai {

struct GenerateRequest {
  CommonFields common;  // n is 1
  std::string prompt;
};

Result<GenerateRequest> parse_generate_request(std::string_view body, const ParseOptions& options);

// {"text", "finish_reason", "usage"}; a stream sends {"text"} for each piece, then that with an empty text,
// then [DONE].
std::unique_ptr<ResponseBuilder> make_generate_builder();

}  // namespace pagoda::openai
