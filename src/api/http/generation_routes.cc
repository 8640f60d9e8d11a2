// POST /v1/completions and /v1/chat/completions.
#include <algorithm>

#include "api/http/api_state.h"
#include "api/http/event_mapping.h"
#include "api/http/generation_call.h"
#include "base/log.h"

namespace pagoda::http {
namespace {

constexpr size_t kMaxWarningBytes = 512;  // of a header made of names that a client chose

// Printable ASCII only: the names come from the client and go into a header and the log.
std::string unknown_fields_text(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    if (!text.empty()) text += ", ";
    for (const char c : name) text += c >= 0x20 && c < 0x7F && c != '"' && c != '\\' ? c : '?';
    if (text.size() > kMaxWarningBytes) {
      text.resize(kMaxWarningBytes);
      return text + "...";
    }
  }
  return text;
}

net::Headers warning_headers(const net::HttpRequest& request, const openai::CommonFields& fields) {
  if (fields.unknown_fields.empty()) return {};
  const std::string names = unknown_fields_text(fields.unknown_fields);
  log::warn("request {}: unknown fields ignored: {}", request.request_id, names);
  return {{"Warning", "299 pagoda \"unknown fields ignored: " + names + "\""}};
}

openai::ResponseOptions response_options(const ApiState& state, const net::HttpRequest& request,
                                         const openai::CommonFields& fields, const char* id_prefix) {
  openai::ResponseOptions options;
  options.id = id_prefix + (fields.request_id.empty() ? request.request_id : fields.request_id);
  options.created = unix_seconds();
  options.model = fields.model.empty() ? state.model().names.front() : fields.model;
  options.n = fields.n;
  options.logprobs = fields.logprobs;
  options.prompt_logprobs = fields.prompt_logprobs;
  options.return_token_ids = fields.return_token_ids;
  options.include_usage = fields.include_usage;
  options.continuous_usage_stats = fields.continuous_usage_stats;
  return options;
}

// Scores can be as many as the vocabulary, and the first chunk of each choice repeats the prompt where its
// ids or its text are wanted.
bool has_short_events(const openai::CommonFields& fields) {
  return !fields.logprobs && !fields.prompt_logprobs && !fields.return_token_ids;
}

CallOptions call_options(const net::HttpRequest& request, const openai::CommonFields& fields) {
  CallOptions options;
  options.headers = warning_headers(request, fields);
  options.n = fields.n;
  options.stream = fields.stream;
  options.include_usage = fields.include_usage;
  options.short_events = has_short_events(fields);
  return options;
}

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
  call.builder = openai::make_chat_builder(response_options(state, request, fields, "chatcmpl-"));
  std::make_shared<GenerationCall>(std::move(call), response)->start(state.service(), std::move(prompts));
  return {};
}

}  // namespace pagoda::http
