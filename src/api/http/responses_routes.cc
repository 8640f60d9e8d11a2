// POST /v1/responses.
#include "api/http/api_state.h"
#include "api/http/call_options.h"
#include "api/http/event_mapping.h"
#include "api/openai/responses_request.h"
#include "api/openai/responses_response.h"

namespace pagoda::http {
namespace {

// Several events repeat what the request said; longer ones are made by the text pool.
constexpr size_t kMaxShortEcho = 16384;

void respond_responses_error(net::ResponseWriter& response, const Error& error) {
  respond_error(response, openai::responses_error(error));
}

}  // namespace

Result<void> handle_responses(ApiState& state, const net::HttpRequest& request,
                              const std::shared_ptr<net::ResponseWriter>& response) {
  auto wanted = PAGODA_TRY(openai::parse_responses_request(request.body, state.parse_options()));
  const openai::CommonFields& fields = wanted.chat.common;
  std::vector<service::GenerationRequest> prompts = {generation_request(fields)};
  prompts.front().prompt = service::ChatPrompt{std::move(wanted.chat.context_json)};
  CallOptions call = call_options(request, fields);
  call.respond_error = respond_responses_error;
  call.short_events = call.short_events && openai::dump_json(wanted.echo).size() <= kMaxShortEcho;
  call.builder =
      openai::make_responses_builder(response_options(state, request, fields, "resp_"),
                                     std::move(wanted.echo), openai::make_output_parser(wanted.chat.parsing));
  start_call(state, std::move(call), response, std::move(prompts));
  return {};
}

}  // namespace pagoda::http
