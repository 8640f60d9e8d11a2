// tools, tool_choice, parallel_tool_calls, and functions and function_call, which came before them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/openai/field_reader.h"
#include "api/openai/output/output_parser.h"

namespace pagoda::openai {

struct ToolUse {
  enum class Choice : uint8_t { kNone, kAuto, kRequired, kNamed };
  Choice choice = Choice::kNone;
  Json shown;                      // to the template: null for none, else the list as the client wrote it
  std::vector<ToolSpec> callable;  // with a named choice that one
  bool one_call = false;
  bool legacy = false;  // functions instead of tools
};

// Errors go to `fields`; the result is then meaningless. With tool_choice none the template sees no tools.
ToolUse read_tool_use(FieldReader& fields);
// The same for routes without an answer: tools and functions only.
ToolUse read_shown_tools(FieldReader& fields);

}  // namespace pagoda::openai
