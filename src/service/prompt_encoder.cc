#include "service/prompt_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace pagoda::service {
namespace {

using Json = nlohmann::ordered_json;

// Appended to the final message to find where it ends in the rendered text. Letters only, so that no template
// escapes it.
constexpr std::string_view kEndOfMessage = "PagodaEndOfFinalMessage";

constexpr int64_t kNoTokenLimit = INT32_MAX;

bool wants_continuation(const Json& context) {
  const auto found = context.find("continue_final_message");
  return found != context.end() && found->is_boolean() && found->get<bool>();
}

Error cannot_continue(std::string_view why) {
  return make_error(ErrorKind::kInvalidArgument,
                    fmt::format("The final message can't be continued: {}.", why), "continue_final_message");
}

// Appends to the text of the last message; false when it has none.
bool append_to_final_message(Json* context, std::string_view tail) {
  const auto messages = context->find("messages");
  if (messages == context->end() || !messages->is_array() || messages->empty()) return false;
  Json& message = messages->back();
  if (!message.is_object() || !message.contains("content")) return false;
  Json* content = &message["content"];
  if (content->is_array()) {
    if (content->empty() || !content->back().is_object() || !content->back().contains("text")) return false;
    content = &content->back()["text"];
  }
  if (!content->is_string()) return false;
  *content = content->get<std::string>().append(tail);
  return true;
}

std::string_view trim_end(std::string_view text) {
  const size_t last = text.find_last_not_of(" \t\r\n");
  return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

}  // namespace

PromptEncoder::PromptEncoder(const text::Tokenizer& tokenizer, const text::ChatTemplate* chat_template,
                             const text::FimTemplate* fim_template)
    : tokenizer_(tokenizer), chat_template_(chat_template), fim_template_(fim_template) {
  for (int64_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string bytes = tokenizer.token_bytes(TokenId{static_cast<int32_t>(id)});
    longest_token_bytes_ = std::max(longest_token_bytes_, bytes.size());
  }
}

Result<text::RenderedPrompt> PromptEncoder::encode(const Prompt& prompt, int64_t vocab_size,
                                                   bool parse_special_tokens) const {
  if (const auto* text = std::get_if<TextPrompt>(&prompt)) {
    const text::EncodeOptions options{text->add_special_tokens, parse_special_tokens};
    auto encoding = PAGODA_TRY(tokenizer_.encode(text->text, options));
    return text::RenderedPrompt{text->text, std::move(encoding)};
  }
  if (const auto* chat = std::get_if<ChatPrompt>(&prompt)) return encode_chat(*chat);
  if (const auto* fim = std::get_if<FimPrompt>(&prompt)) {
    EncodedFim encoded = PAGODA_TRY(encode_fim(*fim, kNoTokenLimit));
    return text::RenderedPrompt{{}, std::move(encoded.ids)};
  }
  const auto& ids = std::get<std::vector<TokenId>>(prompt);
  for (const TokenId id : ids) {
    if (id.value < 0 || id.value >= vocab_size) {
      return make_error(
          ErrorKind::kInvalidArgument,
          fmt::format("Token id {} is out of vocabulary: ids are 0 to {}.", id.value, vocab_size - 1),
          "prompt");
    }
  }
  return text::RenderedPrompt{{}, ids};
}

Result<EncodedFim> PromptEncoder::encode_fim(const FimPrompt& prompt, int64_t max_tokens) const {
  if (fim_template_ == nullptr) {
    return make_error(
        ErrorKind::kUnimplemented,
        "The model has no tokens for filling in the middle; if it knows how by other words, start "
        "the server with --fim-template.",
        "suffix");
  }
  return FimEncoder(tokenizer_, *fim_template_, longest_token_bytes_).encode(prompt, max_tokens);
}

const std::vector<TokenId>& PromptEncoder::fim_stop_ids() const {
  static const std::vector<TokenId> kNone;
  return fim_template_ == nullptr ? kNone : fim_template_->stop_ids();
}

Result<int64_t> PromptEncoder::certain_excess(const Prompt& prompt, int64_t max_tokens) const {
  size_t bytes = 0;
  const size_t limit = static_cast<size_t>(max_tokens) * longest_token_bytes_;
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&prompt)) {
    return std::cmp_greater(ids->size(), max_tokens) ? static_cast<int64_t>(ids->size()) : 0;
  }
  if (const auto* text = std::get_if<TextPrompt>(&prompt)) bytes = text->text.size();
  if (const auto* chat = std::get_if<ChatPrompt>(&prompt)) {
    // A template may drop most of its context, so only what it renders counts; short contexts are not worth
    // the time.
    if (chat->context_json.size() <= limit || chat_template_ == nullptr) return int64_t{0};
    bytes = PAGODA_TRY(chat_template_->render(chat->context_json)).size();
  }
  if (bytes <= limit) return int64_t{0};
  return static_cast<int64_t>((bytes + longest_token_bytes_ - 1) / longest_token_bytes_);
}

Result<text::RenderedPrompt> PromptEncoder::encode_chat(const ChatPrompt& prompt) const {
  if (chat_template_ == nullptr) {
    return make_error(ErrorKind::kUnimplemented,
                      "The model has no chat template; give one with --chat-template or use /v1/completions.",
                      "messages");
  }
  // The name is looked for in the text first, as parsing every context for a rare wish would cost time.
  if (prompt.context_json.find("continue_final_message") != std::string::npos) {
    const Json context = Json::parse(prompt.context_json, nullptr, false);
    if (context.is_object() && wants_continuation(context))
      return continue_final_message(prompt.context_json);
  }
  return text::render_chat(*chat_template_, tokenizer_, prompt.context_json);
}

// The prompt ends with the final message: what the template writes behind it is cut off. The ids are those of
// the whole conversation as far as tokens end at the cut, so that text inside messages is still never read as
// control tokens; a token that spans the cut gives way to the encoding of its part in front.
Result<text::RenderedPrompt> PromptEncoder::continue_final_message(const std::string& context_json) const {
  Json context = Json::parse(context_json);
  if (!append_to_final_message(&context, kEndOfMessage)) return cannot_continue("it has no text");
  const std::string marked =
      PAGODA_TRY(chat_template_->render(context.dump(-1, ' ', false, Json::error_handler_t::replace)));
  const size_t end = marked.rfind(kEndOfMessage);
  if (end == std::string::npos) return cannot_continue("the template does not render it");
  auto whole = PAGODA_TRY(text::render_chat(*chat_template_, tokenizer_, context_json));
  std::string_view head = std::string_view(marked).substr(0, end);
  if (!whole.text.starts_with(head)) head = trim_end(head);  // templates that trim messages
  if (!whole.text.starts_with(head)) return cannot_continue("the template changes it");

  size_t tail_bytes = whole.text.size() - head.size();
  while (tail_bytes > 0) {
    if (whole.ids.empty()) return cannot_continue("its tokens do not match its text");
    const size_t bytes = tokenizer_.token_bytes(whole.ids.back()).size();
    whole.ids.pop_back();
    if (bytes > tail_bytes) {
      const std::string_view part = head.substr(head.size() - std::min(head.size(), bytes - tail_bytes));
      const auto ids =
          PAGODA_TRY(tokenizer_.encode(part, {.add_special_tokens = false, .parse_special_tokens = false}));
      whole.ids.insert(whole.ids.end(), ids.begin(), ids.end());
    }
    tail_bytes -= std::min(tail_bytes, bytes);
  }
  whole.text.resize(head.size());
  return whole;
}

const char* prompt_param(const Prompt& prompt) {
  return std::holds_alternative<ChatPrompt>(prompt) ? "messages" : "prompt";
}

}  // namespace pagoda::service
