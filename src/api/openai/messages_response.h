// Answers of POST /v1/messages: blocks of thinking, text and tool use, whole or as events.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "api/openai/response.h"

namespace pagoda::openai {

struct MessagesOptions {
  ResponseOptions common;  // one choice
  int64_t max_tokens = 0;  // of the request; an answer cut before has filled the context
  bool omit_thinking = false;
};
// `parser` is the one choice's.
std::unique_ptr<ResponseBuilder> make_messages_builder(MessagesOptions options,
                                                       std::unique_ptr<OutputParser> parser);

// {"type": "error", "error": {"type", "message", "param"}} with the error types of this API.
std::string messages_error_json(int status, const ErrorBody& error);

// The answer of /v1/messages/count_tokens.
std::string token_count_json(int64_t input_tokens);

}  // namespace pagoda::openai
