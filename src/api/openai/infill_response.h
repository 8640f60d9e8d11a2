// Answers of POST /infill in llama-server's shape.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/openai/response.h"
#include "base/clock.h"

namespace pagoda::openai {

struct InfillOptions {
  std::string model;
  bool return_tokens = false;
  std::vector<std::string> response_fields;
};

// `clock` must outlive the builder. Times count from here: the prompt's until the first token, waiting
// included.
std::unique_ptr<ResponseBuilder> make_infill_builder(InfillOptions options, const Clock& clock);

}  // namespace pagoda::openai
