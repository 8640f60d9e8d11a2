// Text <-> token ids. The real implementation wraps the Hugging Face `tokenizers` crate through rust/; tests
// have a scripted one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace pagoda::text {

// Incremental decoding of one choice. Not thread-safe; cheap to create.
class DetokenizerStream {
 public:
  virtual ~DetokenizerStream() = default;
  // Text that becomes certain with this token; may be empty (inside a UTF-8 sequence), is always valid UTF-8.
  // Bytes that cannot become a character are U+FFFD. An id without an entry, as padded output heads have
  // them, is no text.
  virtual Result<std::string> push(TokenId id) = 0;
  // What is still held back at the end of the output: an incomplete UTF-8 sequence becomes one U+FFFD (CASES
  // B002).
  virtual std::string finish() = 0;
};

struct EncodeOptions {
  bool add_special_tokens = true;    // BOS and the like, as the tokenizer's post-processor says
  bool parse_special_tokens = true;  // "<|im_end|>" in the text is the control token; false: it is plain text
};

// Immutable after load; every method may be called from several threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // kInvalidArgument for text that is not UTF-8.
  virtual Result<std::vector<TokenId>> encode(std::string_view text, const EncodeOptions& options) const = 0;
  // kInvalidArgument for an id outside the vocabulary.
  virtual Result<std::string> decode(std::span<const TokenId> ids, bool skip_special_tokens) const = 0;
  // `context`: ids before the output (the prompt's tail), so that a leading space that belongs to the output
  // stays.
  virtual std::unique_ptr<DetokenizerStream> stream(std::span<const TokenId> context,
                                                    bool skip_special_tokens) const = 0;
  // The exact bytes that a token stands for inside a text (may be part of a UTF-8 sequence): logprobs'
  // `bytes`.
  virtual std::string token_bytes(TokenId id) const = 0;
  // The vocabulary's own spelling ("Ġthe", "▁the", "<0x0A>").
  virtual std::string token_string(TokenId id) const = 0;
  virtual std::optional<TokenId> token_to_id(std::string_view token) const = 0;
  virtual bool is_special(TokenId id) const = 0;
  virtual int64_t vocab_size() const = 0;  // one more than the highest id, added tokens included
};

// From the text of a tokenizer.json (the file's own truncation and padding settings are dropped).
// kCorruptFile with the reason.
Result<std::shared_ptr<const Tokenizer>> load_tokenizer(std::string_view tokenizer_json);

}  // namespace pagoda::text
