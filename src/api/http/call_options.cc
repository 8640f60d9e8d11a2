#include "api/http/call_options.h"

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

// Scores can be as many as the vocabulary, and the first chunk of each choice repeats the prompt where its
// ids or its text are wanted.
bool has_short_events(const openai::CommonFields& fields) {
  return !fields.logprobs && !fields.prompt_logprobs && !fields.return_token_ids;
}

}  // namespace

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

CallOptions call_options(const net::HttpRequest& request, const openai::CommonFields& fields) {
  CallOptions options;
  options.headers = warning_headers(request, fields);
  options.n = fields.n;
  options.stream = fields.stream;
  options.background = request.background;
  options.short_events = has_short_events(fields);
  return options;
}

void start_call(ApiState& state, CallOptions options, std::shared_ptr<net::ResponseWriter> response,
                std::vector<service::GenerationRequest> prompts) {
  const bool stream = options.stream;
  const auto call = std::make_shared<GenerationCall>(std::move(options), std::move(response));
  call->start(state.service(), std::move(prompts));
  if (stream) state.keeper().add(call);
}

}  // namespace pagoda::http
