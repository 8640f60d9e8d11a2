// The input items of a Responses request as messages of a chat request.
#pragma once

#include "api/openai/chat_translation.h"

namespace pagoda::openai {

// `input` is the request's field: a string or a list of items. Instructions, if any, come before it.
Result<void> read_responses_input(const Json& input, MessageList* messages);

}  // namespace pagoda::openai
