// The bodies of POST /v1/messages and /v1/messages/count_tokens (Anthropic Messages).
#pragma once

#include <string_view>

#include "api/openai/json_text.h"
#include "api/openai/request.h"

namespace pagoda::openai {

struct MessagesRequest {
  ChatRequest chat;
  bool omit_thinking = false;  // blocks of thinking come without their text
};

// As parse_chat_request(); `param` of errors is the field of this API. As in the reference, max_tokens may be
// more than what the context leaves: the answer then ends with model_context_window_exceeded.
Result<MessagesRequest> parse_messages_request(std::string_view body, const ParseOptions& options);
// Everything but max_tokens, which is not needed.
Result<MessagesRequest> parse_count_tokens_request(std::string_view body, const ParseOptions& options);

}  // namespace pagoda::openai
