// The Tokenizer of checkpoints: Hugging Face `tokenizers` through rust/.
#pragma once

#include "text/rust_memory.h"
#include "text/tokenizer.h"

namespace pagoda::text::internal {

class RustTokenizer final : public Tokenizer {
 public:
  explicit RustTokenizer(TokenizerHandle handle) : handle_(std::move(handle)) {}

  Result<std::vector<TokenId>> encode(std::string_view text, const EncodeOptions& options) const override;
  Result<std::string> decode(std::span<const TokenId> ids, bool skip_special_tokens) const override;
  std::unique_ptr<DetokenizerStream> stream(std::span<const TokenId> context,
                                            bool skip_special_tokens) const override;
  std::string token_bytes(TokenId id) const override;
  std::string token_string(TokenId id) const override;
  std::optional<TokenId> token_to_id(std::string_view token) const override;
  bool is_special(TokenId id) const override;
  int64_t vocab_size() const override;

  // render_chat() runs inside the Rust library, on this object's other half.
  const pt_tokenizer* handle() const noexcept { return handle_.get(); }

 private:
  TokenizerHandle handle_;
};

}  // namespace pagoda::text::internal
