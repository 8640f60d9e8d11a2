// From the fields that all requests for a generation share to the options of its answer.
#pragma once

#include <memory>
#include <vector>

#include "api/http/api_state.h"
#include "api/http/generation_call.h"
#include "api/openai/request.h"
#include "api/openai/response.h"

namespace pagoda::http {

// `id_prefix` is the API's ("cmpl-"); the rest of the id is the request's.
openai::ResponseOptions response_options(const ApiState& state, const net::HttpRequest& request,
                                         const openai::CommonFields& fields, const char* id_prefix);

// All but the builder. Warns of unknown fields, in the log and in a header.
CallOptions call_options(const net::HttpRequest& request, const openai::CommonFields& fields);

// Answers with one generation per prompt.
void start_call(ApiState& state, CallOptions options, std::shared_ptr<net::ResponseWriter> response,
                std::vector<service::GenerationRequest> prompts);

}  // namespace pagoda::http
