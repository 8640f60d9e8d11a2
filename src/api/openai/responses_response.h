// Answers of POST /v1/responses: items of reasoning, text and function calls, whole or as events.
#pragma once

#include <memory>

#include "api/openai/json_text.h"
#include "api/openai/response.h"

namespace pagoda::openai {

// `options.id` begins with "resp_". `echo` is a ResponsesRequest's, `parser` the one choice's.
std::unique_ptr<ResponseBuilder> make_responses_builder(ResponseOptions options, Json echo,
                                                        std::unique_ptr<OutputParser> parser);

}  // namespace pagoda::openai
