// From the prompt of a request to token ids.
#pragma once

#include <string>

#include "base/result.h"
#include "service/fim_prompt.h"
#include "service/service.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace pagoda::service {

class PromptEncoder {
 public:
  // The templates may be null; all must outlive this object.
  PromptEncoder(const text::Tokenizer& tokenizer, const text::ChatTemplate* chat_template,
                const text::FimTemplate* fim_template = nullptr);

  // Renders and encodes. `text` of the result is what was encoded; empty for token ids. Ids are checked to
  // lie in [0, vocab_size). kUnimplemented for chat without a template. A FimPrompt is not cut.
  Result<text::RenderedPrompt> encode(const Prompt& prompt, int64_t vocab_size,
                                      bool parse_special_tokens) const;

  // kUnimplemented when the model can't fill in the middle. The prompt has at most `max_tokens` if it can.
  Result<EncodedFim> encode_fim(const FimPrompt& prompt, int64_t max_tokens) const;
  // What ends a middle, beside the model's end tokens.
  const std::vector<TokenId>& fim_stop_ids() const;

  // Refuses, before the work of encoding, a text that must have more than `max_tokens` tokens because none of
  // the vocabulary covers more than longest_token_bytes(). kContextLengthExceeded is left to the caller: this
  // returns the least number of tokens, or 0 when the text may fit.
  Result<int64_t> certain_excess(const Prompt& prompt, int64_t max_tokens) const;

 private:
  Result<text::RenderedPrompt> encode_chat(const ChatPrompt& prompt) const;
  Result<text::RenderedPrompt> continue_final_message(const std::string& context_json) const;

  const text::Tokenizer& tokenizer_;
  const text::ChatTemplate* chat_template_;
  const text::FimTemplate* fim_template_;
  size_t longest_token_bytes_ = 1;
};

// The field that holds the prompt, for errors.
const char* prompt_param(const Prompt& prompt);

}  // namespace pagoda::service
