// POST /v1/completions and /v1/chat/completions.
#include <algorithm>

#include "api/http/api_state.h"
#include "api/http/call_options.h"
#include "api/http/event_mapping.h"

namespace pagoda::http {
namespace {

// Every prompt of the request, with what surrounds it.
service::Prompt prompt_of(openai::CompletionRequest& request, size_t index) {
  openai::PromptInput& input = request.prompts[index];
  if (request.suffix) {
    return service::FimPrompt{
        std::move(std::get<std::string>(input)), *request.suffix, {}, request.stop_at_suffix};
  }
  if (auto* text = std::get_if<std::string>(&input))
    return service::TextPrompt{std::move(*text), request.common.add_special_tokens};
  return std::move(std::get<std::vector<TokenId>>(input));
}

}  // namespace

Result<void> handle_completion(ApiState& state, const net::HttpRequest& request,
                               const std::shared_ptr<net::ResponseWriter>& response) {
  auto wanted = PAGODA_TRY(openai::parse_completion_request(request.body, state.parse_options()));
  const openai::CommonFields& fields = wanted.common;
  openai::ResponseOptions options = response_options(state, request, fields, "cmpl-");
  options.num_prompts = static_cast<int>(wanted.prompts.size());
  options.echo = wanted.echo;

  service::GenerationRequest prototype = generation_request(fields);
  prototype.prompt_text = wanted.echo;
  prototype.n = options.best_of = wanted.best_of;
  if (wanted.best_of > fields.n) {
    // Their scores choose.
    prototype.sampling.num_logprobs =
        prototype.sampling.num_logprobs == -1 ? 0 : prototype.sampling.num_logprobs;
  }
  if (wanted.echo && fields.logprobs && prototype.prompt_logprobs != sampling::kAllLogprobs) {
    const int both = std::max(prototype.prompt_logprobs, prototype.sampling.num_logprobs);
    prototype.prompt_logprobs =
        prototype.sampling.num_logprobs == sampling::kAllLogprobs ? sampling::kAllLogprobs : both;
  }
  std::vector<service::GenerationRequest> prompts(wanted.prompts.size(), prototype);
  for (size_t i = 0; i < prompts.size(); ++i) {
    prompts[i].prompt = prompt_of(wanted, i);
  }
  CallOptions call = call_options(request, fields);
  call.n = wanted.best_of;
  call.short_events = call.short_events && !wanted.echo;
  call.builder = openai::make_completion_builder(std::move(options));
  start_call(state, std::move(call), response, std::move(prompts));
  return {};
}

Result<void> handle_chat(ApiState& state, const net::HttpRequest& request,
                         const std::shared_ptr<net::ResponseWriter>& response) {
  auto wanted = PAGODA_TRY(openai::parse_chat_request(request.body, state.parse_options()));
  const openai::CommonFields& fields = wanted.common;
  std::vector<service::GenerationRequest> prompts = {generation_request(fields)};
  prompts.front().prompt = service::ChatPrompt{std::move(wanted.context_json)};
  CallOptions call = call_options(request, fields);
  openai::ResponseOptions options = response_options(state, request, fields, "chatcmpl-");
  options.parsing = std::move(wanted.parsing);
  call.builder = openai::make_chat_builder(std::move(options));
  start_call(state, std::move(call), response, std::move(prompts));
  return {};
}

}  // namespace pagoda::http
