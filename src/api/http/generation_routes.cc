// POST /v1/completions and /v1/chat/completions.
#include <algorithm>

#include "api/http/api_state.h"
#include "api/http/call_options.h"
#include "api/http/event_mapping.h"

namespace pagoda::http {
namespace {

service::Prompt text_or_ids(openai::PromptInput input, bool add_special_tokens) {
  if (auto* text = std::get_if<std::string>(&input))
    return service::TextPrompt{std::move(*text), add_special_tokens};
  return std::get<std::vector<TokenId>>(std::move(input));
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
  if (wanted.echo && fields.logprobs && prototype.prompt_logprobs != sampling::kAllLogprobs) {
    const int both = std::max(prototype.prompt_logprobs, prototype.sampling.num_logprobs);
    prototype.prompt_logprobs =
        prototype.sampling.num_logprobs == sampling::kAllLogprobs ? sampling::kAllLogprobs : both;
  }
  std::vector<service::GenerationRequest> prompts(wanted.prompts.size(), prototype);
  for (size_t i = 0; i < prompts.size(); ++i) {
    prompts[i].prompt = text_or_ids(std::move(wanted.prompts[i]), fields.add_special_tokens);
  }
  CallOptions call = call_options(request, fields);
  call.short_events = call.short_events && !wanted.echo;
  call.builder = openai::make_completion_builder(std::move(options));
  std::make_shared<GenerationCall>(std::move(call), response)->start(state.service(), std::move(prompts));
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
  std::make_shared<GenerationCall>(std::move(call), response)->start(state.service(), std::move(prompts));
  return {};
}

}  // namespace pagoda::http
