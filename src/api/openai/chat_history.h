// Earlier turns with tool calls, written as the chat template wants them.
#pragma once

#include <functional>
#include <string>

#include "api/openai/json_text.h"
#include "base/result.h"

namespace pagoda::openai {

// How a template wants them; they differ, and the wrong way renders nonsense or drops the call.
struct HistoryShape {
  bool string_arguments = false;  // JSON text instead of an object
  bool null_content = false;      // no text beside calls: null instead of ""
  bool short_ids = false;         // nine letters and digits
};

// Renders a template's context.
using RenderFunction = std::function<Result<std::string>(const std::string& context_json)>;

// Found by rendering a conversation with a call in it.
HistoryShape probe_history(const RenderFunction& render);

// `messages`: a list of objects with role and content. Arguments become what the template wants and are
// checked to be an object; function_call and the role function, which came before tools, become tool_calls
// and the role tool; reasoning is also given by the name that templates know.
Result<void> normalise_history(Json& messages, const HistoryShape& shape);

}  // namespace pagoda::openai
