// The turns of a Messages request as messages of a chat request.
#pragma once

#include "api/openai/chat_translation.h"

namespace pagoda::openai {

// `system`: a string or a list of text blocks.
Result<void> read_system_blocks(const Json& system, MessageList* messages);

// `turns`: the request's messages. Neighbours of the same role are one turn, as in the reference.
Result<void> read_message_turns(const Json& turns, MessageList* messages);

}  // namespace pagoda::openai
