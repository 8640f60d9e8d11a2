// How a model wants to be asked for the middle of a text: the order of prefix and suffix, and the control
// tokens around them. Found in the vocabulary, or given as text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "text/tokenizer.h"

namespace pagoda::text {

// The control tokens of filling in the middle that a checkpoint names itself (tokenizer.ggml.fim_*).
struct FimTokenIds {
  std::optional<TokenId> prefix, suffix, middle, pad, repo, separator;
};

// Immutable. Belongs to the tokenizer that it was made with.
class FimTemplate {
 public:
  struct Part {
    enum class Kind : uint8_t { kControl, kPrefix, kSuffix };
    Kind kind = Kind::kControl;
    std::vector<TokenId> ids;  // of kControl
  };

  // Declared ids go before names that models are known to use; nullopt when the model has neither.
  static std::optional<FimTemplate> detect(const Tokenizer& tokenizer, const FimTokenIds& declared = {});

  // A text that holds {prefix} and {suffix} once each; the rest is the template's own, where special tokens
  // are parsed. kInvalidArgument names --fim-template.
  static Result<FimTemplate> parse(const Tokenizer& tokenizer, std::string_view source);

  // In the order of the prompt, BOS included where the tokenizer begins texts with it.
  const std::vector<Part>& parts() const { return parts_; }
  // Ids of the first part that are the tokenizer's own beginning of a text.
  size_t num_bos() const { return num_bos_; }
  // Control tokens and ends of files: each ends the middle.
  const std::vector<TokenId>& stop_ids() const { return stop_ids_; }
  // Around other files of the project; absent: such files go in front of the prefix as plain text.
  std::optional<TokenId> repo() const { return repo_; }
  std::optional<TokenId> separator() const { return separator_; }
  // "<|fim_prefix|>{prefix}<|fim_suffix|>{suffix}<|fim_middle|>"
  const std::string& source() const { return source_; }

  // Text of a user: never a control token, whatever is written in it. `joined`: it goes on where other text
  // ended, so a tokenizer that begins texts with a space must not do so here.
  Result<std::vector<TokenId>> encode_text(const Tokenizer& tokenizer, std::string_view text,
                                           bool joined) const;

 private:
  FimTemplate() = default;
  void add_control(const Tokenizer& tokenizer, TokenId id);
  void add_bos(const Tokenizer& tokenizer);
  void add_ends_of_files(const Tokenizer& tokenizer);
  void add_stop(TokenId id);

  std::vector<Part> parts_;
  size_t num_bos_ = 0;
  std::vector<TokenId> stop_ids_;
  std::optional<TokenId> repo_, separator_;
  std::string source_;
};

}  // namespace pagoda::text
