#include "text/rust_tokenizer.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "base/check.h"

namespace pagoda::text {
namespace internal {
namespace {

// Negative ids become one that no vocabulary has.
uint32_t to_rust(TokenId id) {
  return id.value < 0 ? std::numeric_limits<uint32_t>::max() : static_cast<uint32_t>(id.value);
}

std::vector<uint32_t> to_rust(std::span<const TokenId> ids) {
  std::vector<uint32_t> out;
  out.reserve(ids.size());
  for (const TokenId id : ids) out.push_back(to_rust(id));
  return out;
}

class RustStream final : public DetokenizerStream {
 public:
  explicit RustStream(StreamHandle handle) : handle_(std::move(handle)) {}

  Result<std::string> push(TokenId id) override {
    if (id.value < 0)
      return make_error(ErrorKind::kInvalidArgument, fmt::format("token id {} is negative", id.value));
    pt_text text{};
    const pt_status status = pt_stream_push(handle_.get(), to_rust(id), &text);
    if (status != PT_OK) return rust_error(status, ErrorKind::kInternal);
    return take_text(text);
  }

  std::string finish() override {
    pt_text text{};
    if (pt_stream_finish(handle_.get(), &text) != PT_OK) return {};
    return take_text(text);
  }

 private:
  StreamHandle handle_;
};

}  // namespace

Result<std::vector<TokenId>> RustTokenizer::encode(std::string_view text,
                                                   const EncodeOptions& options) const {
  uint32_t flags = 0;
  if (options.add_special_tokens) flags |= PT_ADD_SPECIAL;
  if (options.parse_special_tokens) flags |= PT_PARSE_SPECIAL;
  pt_ids ids{};
  const pt_status status = pt_tokenizer_encode(handle_.get(), text.data(), text.size(), flags, &ids);
  if (status != PT_OK) return rust_error(status, ErrorKind::kInvalidArgument);
  return take_ids(ids);
}

Result<std::string> RustTokenizer::decode(std::span<const TokenId> ids, bool skip_special_tokens) const {
  for (const TokenId id : ids) {
    if (id.value < 0)
      return make_error(ErrorKind::kInvalidArgument, fmt::format("token id {} is negative", id.value));
  }
  const std::vector<uint32_t> rust_ids = to_rust(ids);
  pt_text text{};
  const pt_status status =
      pt_tokenizer_decode(handle_.get(), rust_ids.data(), rust_ids.size(), skip_special_tokens, &text);
  if (status != PT_OK) return rust_error(status, ErrorKind::kInvalidArgument);
  return take_text(text);
}

std::unique_ptr<DetokenizerStream> RustTokenizer::stream(std::span<const TokenId> context,
                                                         bool skip_special_tokens) const {
  const std::vector<uint32_t> ids = to_rust(context);
  StreamHandle handle(pt_stream_new(handle_.get(), ids.data(), ids.size(), skip_special_tokens));
  PAGODA_CHECK(handle != nullptr, "the text library could not create a stream");
  return std::make_unique<RustStream>(std::move(handle));
}

std::string RustTokenizer::token_bytes(TokenId id) const {
  size_t size = 0;
  const char* bytes = pt_tokenizer_token_bytes(handle_.get(), to_rust(id), &size);
  return size == 0 ? std::string() : std::string(bytes, size);
}

std::string RustTokenizer::token_string(TokenId id) const {
  pt_text text{};
  if (pt_tokenizer_token_string(handle_.get(), to_rust(id), &text) != PT_OK) return {};
  return take_text(text);
}

std::optional<TokenId> RustTokenizer::token_to_id(std::string_view token) const {
  const int64_t id = pt_tokenizer_token_to_id(handle_.get(), token.data(), token.size());
  if (id < 0) return std::nullopt;
  return TokenId{static_cast<int32_t>(id)};
}

bool RustTokenizer::is_special(TokenId id) const {
  return pt_tokenizer_is_special(handle_.get(), to_rust(id)) != 0;
}

int64_t RustTokenizer::vocab_size() const {
  return static_cast<int64_t>(pt_tokenizer_vocab_size(handle_.get()));
}

}  // namespace internal

Result<std::shared_ptr<const Tokenizer>> load_tokenizer(std::string_view tokenizer_json) {
  pt_tokenizer* handle = nullptr;
  const pt_status status = pt_tokenizer_load(tokenizer_json.data(), tokenizer_json.size(), &handle);
  if (status != PT_OK) {
    Error error = internal::rust_error(status, ErrorKind::kCorruptFile);
    error.message = "the tokenizer cannot be loaded: " + error.message;
    return error;
  }
  std::shared_ptr<const Tokenizer> tokenizer =
      std::make_shared<internal::RustTokenizer>(internal::TokenizerHandle(handle));
  return tokenizer;
}

}  // namespace pagoda::text
