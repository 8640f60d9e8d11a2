// POST /infill and /generate: the shapes of llama-server and of a minimal service.
#include "api/http/api_state.h"
#include "api/http/call_options.h"
#include "api/http/event_mapping.h"
#include "api/openai/generate_request.h"
#include "api/openai/infill_request.h"
#include "api/openai/infill_response.h"

namespace pagoda::http {

Result<void> handle_infill(ApiState& state, const net::HttpRequest& request,
                           const std::shared_ptr<net::ResponseWriter>& response) {
  static const SteadyClock kClock;
  auto wanted = PAGODA_TRY(openai::parse_infill_request(request.body, state.parse_options()));
  const openai::CommonFields& fields = wanted.common;
  service::FimPrompt prompt{std::move(wanted.prefix), std::move(wanted.suffix), {}, wanted.stop_at_suffix};
  for (openai::InfillFile& file : wanted.files)
    prompt.files.push_back({std::move(file.name), std::move(file.text)});
  std::vector<service::GenerationRequest> prompts = {generation_request(fields)};
  prompts.front().prompt = std::move(prompt);
  CallOptions call = call_options(request, fields);
  openai::InfillOptions options;
  options.model = fields.model.empty() ? state.model().names.front() : fields.model;
  options.return_tokens = wanted.return_tokens;
  options.response_fields = std::move(wanted.response_fields);
  call.builder = openai::make_infill_builder(std::move(options), kClock);
  start_call(state, std::move(call), response, std::move(prompts));
  return {};
}

Result<void> handle_generate(ApiState& state, const net::HttpRequest& request,
                             const std::shared_ptr<net::ResponseWriter>& response) {
  auto wanted = PAGODA_TRY(openai::parse_generate_request(request.body, state.parse_options()));
  const openai::CommonFields& fields = wanted.common;
  std::vector<service::GenerationRequest> prompts = {generation_request(fields)};
  prompts.front().prompt = service::TextPrompt{std::move(wanted.prompt), fields.add_special_tokens};
  CallOptions call = call_options(request, fields);
  call.builder = openai::make_generate_builder();
  start_call(state, std::move(call), response, std::move(prompts));
  return {};
}

}  // namespace pagoda::http
