// What an output must match that has to call a tool.
#pragma once

#include <string>
#include <vector>

#include "api/openai/output/output_format.h"
#include "api/openai/output/output_parser.h"

namespace pagoda::openai {

// In llguidance's Lark: calls as the format writes them, so that the parser finds them; reasoning may come
// first. Arguments match the schema of their tool; keywords of JSON Schema that llguidance lacks are passed
// over. One call where parsing.one_call says so, or where the format has no sign between calls.
std::string tool_grammar(const OutputParsing& parsing);

// An answer that matches a JSON schema, where the parser looks for other things, too: reasoning may come
// first, and calls may take the answer's place.
std::string answer_grammar(const OutputParsing& parsing, const std::string& schema_json);

}  // namespace pagoda::openai
