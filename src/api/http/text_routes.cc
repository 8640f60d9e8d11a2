// /tokenize, /detokenize and /apply-template.
#include "api/http/api_state.h"
#include "api/openai/response.h"

namespace pagoda::http {
namespace {

service::Prompt prompt_of(const openai::TokenizeRequest& request) {
  if (request.context_json) return service::ChatPrompt{*request.context_json};
  return service::TextPrompt{request.prompt.value_or(""), request.add_special_tokens};
}

// A server of vectors loads no template, whether the model has one or not.
Result<void> check_renders(const ApiState& state) {
  if (state.model().embeddings == nullptr) return {};
  return make_error(ErrorKind::kUnimplemented,
                    "This server makes embeddings and renders no chat templates: start it without --runner "
                    "pooling or --task embed for that.",
                    "messages");
}

}  // namespace

Result<void> handle_tokenize(ApiState& state, const net::HttpRequest& request,
                             const std::shared_ptr<net::ResponseWriter>& response) {
  const auto wanted = PAGODA_TRY(openai::parse_tokenize_request(request.body, state.parse_options()));
  const service::Service& service = state.service();
  if (wanted.context_json) PAGODA_TRY(check_renders(state));
  auto encoded = PAGODA_TRY(service.encode(prompt_of(wanted), wanted.parse_special_tokens));
  openai::TokenizeAnswer answer;
  answer.max_model_len = service.max_model_len();
  if (wanted.return_token_strs) {
    answer.token_strs.emplace();
    for (const TokenId id : encoded.ids) answer.token_strs->push_back(service.tokenizer().token_string(id));
  }
  answer.tokens = std::move(encoded.ids);
  respond_json(*response, openai::tokenize_json(answer));
  return {};
}

Result<void> handle_detokenize(ApiState& state, const net::HttpRequest& request,
                               const std::shared_ptr<net::ResponseWriter>& response) {
  const auto wanted = PAGODA_TRY(openai::parse_detokenize_request(request.body, state.parse_options()));
  const std::string text = PAGODA_TRY(state.service().tokenizer().decode(wanted.tokens, false));
  respond_json(*response, openai::prompt_json(text));
  return {};
}

Result<void> handle_apply_template(ApiState& state, const net::HttpRequest& request,
                                   const std::shared_ptr<net::ResponseWriter>& response) {
  PAGODA_TRY(check_renders(state));
  std::string context = PAGODA_TRY(openai::parse_apply_template_request(request.body, state.parse_options()));
  const auto encoded = PAGODA_TRY(state.service().encode(service::ChatPrompt{std::move(context)}));
  respond_json(*response, openai::prompt_json(encoded.text));
  return {};
}

}  // namespace pagoda::http
