// From the text on both sides of a cursor to the prompt that asks the model for the middle.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "service/service.h"
#include "text/fim_template.h"
#include "text/tokenizer.h"

namespace pagoda::service {

// Tokens of prefix and suffix that a prompt takes.
struct FimShares {
  int64_t prefix = 0, suffix = 0;
};
// What doesn't fit is shared out: three quarters to the prefix, one to the suffix, and what one of them
// doesn't use goes to the other.
FimShares share_fim_budget(int64_t prefix_tokens, int64_t suffix_tokens, int64_t budget);

struct EncodedFim {
  std::vector<TokenId> ids;
  FimCut cut;
};

class FimEncoder {
 public:
  // Both must outlive this object. `longest_token_bytes`: no token stands for more text.
  FimEncoder(const text::Tokenizer& tokenizer, const text::FimTemplate& fim_template,
             size_t longest_token_bytes)
      : tokenizer_(tokenizer), template_(fim_template), longest_token_bytes_(longest_token_bytes) {}

  // A prompt of at most `max_tokens`, unless its control tokens alone are more. What is nearest the cursor
  // stays: files go first, the earliest of the list before the others, then the far ends of prefix and
  // suffix.
  Result<EncodedFim> encode(const FimPrompt& prompt, int64_t max_tokens) const;

 private:
  struct Side {
    std::vector<TokenId> ids;
    int64_t left_out = 0;  // tokens; of text that was never encoded, the least number
  };
  Result<Side> encode_side(std::string_view text, int64_t budget, bool is_prefix) const;
  void cut_prefix(Side* side, int64_t tokens) const;
  void cut_suffix(Side* side, int64_t tokens) const;
  // The files that fit, ready to go in front.
  Result<std::vector<TokenId>> encode_files(const std::vector<FimFile>& files, int64_t budget,
                                            int* dropped) const;
  Result<std::vector<TokenId>> encode_file(const FimFile& file) const;
  std::vector<TokenId> assemble(const std::vector<TokenId>& prefix, const std::vector<TokenId>& suffix,
                                const std::vector<TokenId>& files) const;
  bool starts_character(TokenId id) const;
  std::string_view bounded(std::string_view text, int64_t tokens, bool keep_end) const;

  const text::Tokenizer& tokenizer_;
  const text::FimTemplate& template_;
  const size_t longest_token_bytes_;
};

}  // namespace pagoda::service
