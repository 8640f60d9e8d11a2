// The body of POST /v1/responses (OpenAI Responses), without the parts that need a store.
#pragma once

#include <string_view>

#include "api/openai/json_text.h"
#include "api/openai/request.h"

namespace pagoda::openai {

struct ResponsesRequest {
  ChatRequest chat;
  Json echo;  // the fields of the response object that repeat the request, in order
};

// As parse_chat_request(); `param` of errors is the field of this API.
Result<ResponsesRequest> parse_responses_request(std::string_view body, const ParseOptions& options);

// An error of a later stage, in the words of this API.
Error responses_error(Error error);

}  // namespace pagoda::openai
