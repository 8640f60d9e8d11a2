#include "scripted/scripted_tokenizer.h"

#include <fmt/format.h>

#include <stdexcept>

#include "scripted/utf8_pieces.h"

namespace pagoda::scripted {
namespace {

class Stream final : public text::DetokenizerStream {
 public:
  Stream(std::shared_ptr<const ScriptTable> table, bool skip_special, bool faults)
      : table_(std::move(table)), skip_special_(skip_special), faults_(faults) {}

  Result<std::string> push(TokenId id) override {
    if (faults_ && id == kFault) return make_error(ErrorKind::kInternal, "the script asked for a fault");
    if (faults_ && id == kThrow) throw std::runtime_error("the script asked for an exception");
    if (ScriptTable::is_special(id) && skip_special_) return std::string();
    return pieces_.push(table_->bytes(id));
  }
  std::string finish() override { return pieces_.finish(); }

 private:
  std::shared_ptr<const ScriptTable> table_;
  bool skip_special_, faults_;
  Utf8Pieces pieces_;
};

bool is_utf8(std::string_view text) {
  Utf8Pieces pieces;
  return pieces.push(text) + pieces.finish() == text;
}

}  // namespace

ScriptedTokenizer::ScriptedTokenizer(std::shared_ptr<const ScriptTable> table, bool add_bos, bool faults)
    : table_(std::move(table)), add_bos_(add_bos), faults_(faults) {}

Result<std::vector<TokenId>> ScriptedTokenizer::encode(std::string_view text,
                                                       const text::EncodeOptions& options) const {
  if (!is_utf8(text)) return make_error(ErrorKind::kInvalidArgument, "The text is not valid UTF-8.");
  std::vector<TokenId> ids;
  if (options.add_special_tokens && add_bos_) ids.push_back(kBos);
  for (size_t i = 0; i < text.size();) {
    const std::string_view rest = text.substr(i);
    TokenId found;
    if (rest.front() == 's') found = table_->script_token_at(rest);
    for (int32_t id = 0; id < kNumSpecial && options.parse_special_tokens && rest.front() == '<'; ++id) {
      if (rest.starts_with(table_->bytes(TokenId{id}))) found = TokenId{id};
    }
    if (found.value < 0) found = TokenId{kFirstByte + static_cast<unsigned char>(rest.front())};
    ids.push_back(found);
    i += table_->bytes(found).size();
  }
  return ids;
}

Result<std::string> ScriptedTokenizer::decode(std::span<const TokenId> ids, bool skip_special_tokens) const {
  Utf8Pieces pieces;
  std::string text;
  for (const TokenId id : ids) {
    if (id.value < 0 || id.value >= vocab_size()) {
      return make_error(
          ErrorKind::kInvalidArgument,
          fmt::format("Token id {} is out of vocabulary: ids are 0 to {}.", id.value, vocab_size() - 1));
    }
    if (!is_special(id) || !skip_special_tokens) text += pieces.push(table_->bytes(id));
  }
  return text + pieces.finish();
}

std::unique_ptr<text::DetokenizerStream> ScriptedTokenizer::stream(std::span<const TokenId>,
                                                                   bool skip_special_tokens) const {
  return std::make_unique<Stream>(table_, skip_special_tokens, faults_);
}

std::string ScriptedTokenizer::token_bytes(TokenId id) const {
  return table_->bytes(id);
}

std::string ScriptedTokenizer::token_string(TokenId id) const {
  const bool is_byte = id.value >= kFirstByte && id.value < kFirstByte + 256;
  return is_byte ? fmt::format("<0x{:02X}>", id.value - kFirstByte) : table_->bytes(id);
}

std::optional<TokenId> ScriptedTokenizer::token_to_id(std::string_view token) const {
  for (int32_t id = 0; id < vocab_size(); ++id) {
    if (token_string(TokenId{id}) == token) return TokenId{id};
  }
  return std::nullopt;
}

}  // namespace pagoda::scripted
