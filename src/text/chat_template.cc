#include "text/chat_template.h"

#include <utility>

#include "text/rust_memory.h"
#include "text/rust_tokenizer.h"

namespace pagoda::text {

struct ChatTemplate::Impl {
  internal::TemplateHandle handle;
  std::string source;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

Result<ChatTemplate> ChatTemplate::compile(std::string_view source) {
  pt_template* handle = nullptr;
  const pt_status status = pt_template_compile(source.data(), source.size(), &handle);
  if (status != PT_OK) return internal::rust_error(status, ErrorKind::kCorruptFile);
  auto impl = std::make_unique<Impl>();
  impl->handle.reset(handle);
  impl->source = source;
  return ChatTemplate(std::move(impl));
}

Result<std::string> ChatTemplate::render(std::string_view context_json) const {
  pt_text text{};
  const pt_status status =
      pt_template_render(impl_->handle.get(), context_json.data(), context_json.size(), &text);
  if (status != PT_OK) return internal::rust_error(status, ErrorKind::kInvalidArgument);
  return internal::take_text(text);
}

bool ChatTemplate::wants_content_parts() const {
  return pt_template_wants_content_parts(impl_->handle.get()) != 0;
}

const std::string& ChatTemplate::source() const {
  return impl_->source;
}

Result<RenderedPrompt> ChatTemplate::render_and_encode(const Tokenizer& tokenizer,
                                                       std::string_view context_json) const {
  const auto* rust_tokenizer = dynamic_cast<const internal::RustTokenizer*>(&tokenizer);
  if (rust_tokenizer == nullptr) {
    std::string text = PAGODA_TRY(render(context_json));
    std::vector<TokenId> ids = PAGODA_TRY(tokenizer.encode(text, {.add_special_tokens = false}));
    return RenderedPrompt{std::move(text), std::move(ids)};
  }
  pt_prompt prompt{};
  const pt_status status = pt_render_chat(impl_->handle.get(), rust_tokenizer->handle(), context_json.data(),
                                          context_json.size(), &prompt);
  if (status != PT_OK) return internal::rust_error(status, ErrorKind::kInvalidArgument);
  return RenderedPrompt{internal::take_text(prompt.text), internal::take_ids(prompt.ids)};
}

Result<RenderedPrompt> render_chat(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                                   std::string_view context_json) {
  return chat_template.render_and_encode(tokenizer, context_json);
}

}  // namespace pagoda::text
