#include "api/http/template_setup.h"

#include <algorithm>

#include "api/openai/output/output_format.h"

namespace pagoda::http {
namespace {

// As the grammars of constrained output see tokens: control tokens, and others that look like them.
bool is_named_in_grammars(const text::Tokenizer& tokenizer, TokenId id, const std::string& marker) {
  return tokenizer.is_special(id) || (marker.starts_with('<') && marker.ends_with('>'));
}

void find_markers(const text::Tokenizer& tokenizer, openai::OutputFormat* format) {
  for (const std::string& marker : format->markers()) {
    const auto id = tokenizer.token_to_id(marker);
    if (!id || !is_named_in_grammars(tokenizer, *id, marker)) continue;
    format->marker_tokens[marker] = *id;
    if (tokenizer.is_special(*id)) format->hidden_markers.push_back(*id);
  }
}

}  // namespace

void read_chat_template(const service::Service& service, const ApiOptions& api,
                        openai::ParseOptions* options) {
  const text::ChatTemplate* chat_template = service.chat_template();
  if (chat_template == nullptr) return;
  options->content_parts = chat_template->wants_content_parts();
  options->render = [chat_template](const std::string& context) { return chat_template->render(context); };
  options->history = openai::probe_history(options->render);
  options->roles = openai::ChatRoles(chat_template->source());
  auto format =
      openai::choose_output_format(chat_template->source(), api.tool_call_parser, api.reasoning_parser);
  if (!format) format = openai::choose_output_format(chat_template->source(), "", "");
  find_markers(service.tokenizer(), &*format);
  options->history.short_ids = format->tools.short_ids;
  options->output_format = std::make_shared<const openai::OutputFormat>(std::move(*format));
}

}  // namespace pagoda::http
