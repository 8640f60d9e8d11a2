// Chat templates with transformers' settings (trim_blocks, lstrip_blocks, loop controls, tojson,
// strftime_now, raise_exception, generation tags), rendered by minijinja through rust/.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "text/tokenizer.h"

namespace pagoda::text {

// A chat prompt, ready for the engine.
struct RenderedPrompt {
  std::string text;
  std::vector<TokenId> ids;
};

// Immutable; render from any thread. Rendering is bounded in steps, output size and recursion.
class ChatTemplate {
 public:
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  // kCorruptFile with the template's line for a syntax error.
  static Result<ChatTemplate> compile(std::string_view source);

  // `context_json`: an object with messages, tools (null if none), documents, add_generation_prompt,
  // bos_token, eos_token,
  // ... Key order is kept. kInvalidArgument with the template's own message for raise_exception and for
  // runtime errors.
  Result<std::string> render(std::string_view context_json) const;

  // Whether the template iterates over message.content as a list of parts (else parts are joined to one
  // string first).
  bool wants_content_parts() const;
  // As it was given to compile().
  const std::string& source() const;

 private:
  friend Result<RenderedPrompt> render_chat(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                                            std::string_view context_json);
  Result<RenderedPrompt> render_and_encode(const Tokenizer& tokenizer, std::string_view context_json) const;

  struct Impl;
  explicit ChatTemplate(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Renders and encodes: control tokens come from the template's own text only. Special-token text inside
// strings of the context is encoded as plain text (CASES B078; the template sees such strings with invisible
// marks in them). BOS: a tokenizer that begins every text with BOS does so here unless the template has
// written one (B077); no EOS is added. With a Tokenizer that is not load_tokenizer's (a test's) the text is
// rendered and encoded as it is.
Result<RenderedPrompt> render_chat(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                                   std::string_view context_json);

}  // namespace pagoda::text
