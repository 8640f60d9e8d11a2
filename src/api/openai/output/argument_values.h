// Arguments that a model writes as plain text between tags: what JSON value the text stands for.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "api/openai/json_text.h"
#include "api/openai/output/output_parser.h"

namespace pagoda::openai {

// The names of the types that `schema`, a part of `root`, allows; empty when it doesn't say.
std::set<std::string> argument_types(const Json& root, const Json& schema);

// JSON text for the argument `name` of `tool` (may be null). The type in the schema decides: text that isn't
// of it, and all text without a type, is a string.
std::string argument_json(const ToolSpec* tool, std::string_view name, std::string_view text);

}  // namespace pagoda::openai
