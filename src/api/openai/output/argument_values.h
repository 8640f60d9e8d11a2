// Arguments that a model writes as plain text between tags: what JSON value the text stands for.
#pragma once

#include <string>
#include <string_view>

#include "api/openai/json_text.h"
#include "api/openai/output/output_parser.h"

namespace pagoda::openai {

// JSON text for the argument `name` of `tool` (may be null). The type in the schema decides: text that isn't
// of it, and all text without a type, is a string.
std::string argument_json(const ToolSpec* tool, std::string_view name, std::string_view text);

}  // namespace pagoda::openai
