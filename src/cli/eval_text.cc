#include "cli/eval_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "cli/eval_builtin_text.h"

namespace pagoda::cli {
namespace {

// A text is read as a whole; the first tokens of a larger file would do as well.
constexpr size_t kMaxTextBytes = size_t{64} << 20;

Error text_error(const std::string& path, const std::string& what) {
  return make_error(ErrorKind::kInvalidArgument, fmt::format("--text {}: {}", path, what), "--text");
}

// A blank end of a tokenizer's text can be a token: one letter is what all of them can encode.
constexpr std::string_view kProbe = "a";

}  // namespace

std::string_view builtin_eval_text() {
  return kBuiltinEvalText;
}

Result<std::string> read_eval_text(const std::string& path) {
  if (path == "builtin") return std::string(builtin_eval_text());
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  if (file) {
    text.resize(kMaxTextBytes + 1);
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<size_t>(file.gcount()));
  }
  if (!file.is_open() || file.bad() || (file.fail() && !file.eof())) {
    return make_error(ErrorKind::kIo, fmt::format("--text {}: {}", path, std::strerror(errno)), "--text");
  }
  if (text.empty()) return text_error(path, "the file is empty");
  if (text.size() > kMaxTextBytes) return text_error(path, "larger than 64 MiB");
  if (text.find('\0') != std::string::npos) return text_error(path, "not a text: it has zero bytes");
  return text;
}

Result<std::optional<TokenId>> leading_token(const text::Tokenizer& tokenizer) {
  const auto plain = PAGODA_TRY(tokenizer.encode(kProbe, {.add_special_tokens = false}));
  const auto with = PAGODA_TRY(tokenizer.encode(kProbe, {}));
  std::optional<TokenId> leading;
  if (with.size() > plain.size() && (plain.empty() || with.front() != plain.front())) leading = with.front();
  return leading;
}

Result<std::vector<TokenId>> encode_eval_text(const text::Tokenizer& tokenizer, const std::string& text,
                                              int64_t max_tokens, const std::string& path) {
  auto encoded = tokenizer.encode(text, {.add_special_tokens = false, .parse_special_tokens = false});
  if (!encoded) return text_error(path, encoded.error().message);
  std::vector<TokenId> tokens = std::move(*encoded);
  if (tokens.size() < 2) {
    return text_error(path, fmt::format("{} token is too short a text: two are the least", tokens.size()));
  }
  tokens.resize(static_cast<size_t>(std::min(max_tokens, std::ssize(tokens))));
  return tokens;
}

Result<void> check_same_vocabulary(const text::Tokenizer& reference, const text::Tokenizer& other) {
  const int64_t common = std::min(reference.vocab_size(), other.vocab_size());
  for (int64_t id = 0; id < common; ++id) {
    const TokenId token{static_cast<int32_t>(id)};
    const std::string expected = reference.token_string(token), found = other.token_string(token);
    if (expected == found || expected.empty() || found.empty()) continue;  // a gap in the ids is no entry
    return make_error(
        ErrorKind::kInvalidArgument,
        fmt::format("its vocabulary is not the reference's, so their predictions can't be compared: "
                    "token {} is '{}' there and '{}' here",
                    id, expected, found),
        "--reference");
  }
  return {};
}

}  // namespace pagoda::cli
