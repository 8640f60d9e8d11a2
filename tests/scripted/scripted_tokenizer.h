// A tokenizer of single bytes, special tokens and script names.
#pragma once

#include <memory>

#include "scripted/script_table.h"
#include "text/tokenizer.h"

namespace pagoda::scripted {

class ScriptedTokenizer final : public text::Tokenizer {
 public:
  // `add_bos`: a plain prompt starts with <s>. Without `faults` kFault and kThrow are as harmless as <pad>.
  explicit ScriptedTokenizer(std::shared_ptr<const ScriptTable> table, bool add_bos = false,
                             bool faults = true);

  Result<std::vector<TokenId>> encode(std::string_view text,
                                      const text::EncodeOptions& options) const override;
  Result<std::string> decode(std::span<const TokenId> ids, bool skip_special_tokens) const override;
  std::unique_ptr<text::DetokenizerStream> stream(std::span<const TokenId> context,
                                                  bool skip_special_tokens) const override;
  std::string token_bytes(TokenId id) const override;
  std::string token_string(TokenId id) const override;
  std::optional<TokenId> token_to_id(std::string_view token) const override;
  bool is_special(TokenId id) const override { return ScriptTable::is_special(id); }
  int64_t vocab_size() const override { return table_->vocab_size(); }

 private:
  std::shared_ptr<const ScriptTable> table_;
  bool add_bos_, faults_;
};

}  // namespace pagoda::scripted
