// Messages and template fields of a chat request, turned into the context that the chat template renders.
#pragma once

#include <string>

#include "api/openai/field_reader.h"
#include "api/openai/request.h"

namespace pagoda::openai {

// Reads messages, add_generation_prompt, continue_final_message, documents, chat_template_kwargs and
// reasoning_effort. Content given as parts is joined with line breaks unless the template iterates over
// parts, absent content becomes an empty string, and earlier tool calls become what options.history says.
// Names that the server sets itself can't be replaced through chat_template_kwargs. Errors go to `fields`;
// the result is then meaningless.
// `tools`: a ToolUse's `shown`.
std::string read_chat_context(FieldReader& fields, const ParseOptions& options, const Json& tools);

// parse_chat_request() of a body that is parsed already. Other APIs are translated into such a body.
Result<ChatRequest> read_chat_request(const Json& body, const ParseOptions& options);

}  // namespace pagoda::openai
