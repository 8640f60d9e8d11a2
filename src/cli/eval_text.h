// The text that models are measured on, as tokens.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "text/tokenizer.h"

namespace pagoda::cli {

// The text that pagoda brings along: some 2,000 tokens of prose, dialogue, notes and code.
std::string_view builtin_eval_text();

// The file's text, or the built-in one for "builtin". kIo or kInvalidArgument, naming file and reason: a file
// that is missing, empty, or no UTF-8 text.
Result<std::string> read_eval_text(const std::string& path);

// What the tokenizer puts in front of every text, if it does.
Result<std::optional<TokenId>> leading_token(const text::Tokenizer& tokenizer);

// The first `max_tokens` of the text, without the leading one. kInvalidArgument when there are fewer than
// two.
Result<std::vector<TokenId>> encode_eval_text(const text::Tokenizer& tokenizer, const std::string& text,
                                              int64_t max_tokens, const std::string& path);

// kInvalidArgument, naming the first difference, where the same id is not the same token in both. One may be
// longer than the other: some formats name the entries that pad the output head.
Result<void> check_same_vocabulary(const text::Tokenizer& reference, const text::Tokenizer& other);

}  // namespace pagoda::cli
