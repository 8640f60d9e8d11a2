#include "cli/eval_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

namespace pagoda::cli {
namespace {

using testing::HasSubstr;

// A token a letter, and one in front if asked for.
class LetterTokenizer : public text::Tokenizer {
 public:
  explicit LetterTokenizer(bool leads, std::map<int32_t, std::string> others = {}, int64_t size = 128)
      : leads_(leads), others_(std::move(others)), size_(size) {}
  Result<std::vector<TokenId>> encode(std::string_view text,
                                      const text::EncodeOptions& options) const override {
    std::vector<TokenId> ids;
    if (leads_ && options.add_special_tokens) ids.push_back({1});
    for (const char c : text) {
      if (static_cast<unsigned char>(c) >= 128) return make_error(ErrorKind::kInvalidArgument, "not UTF-8");
      ids.push_back({c});
    }
    return ids;
  }
  Result<std::string> decode(std::span<const TokenId>, bool) const override { return std::string(); }
  std::unique_ptr<text::DetokenizerStream> stream(std::span<const TokenId>, bool) const override {
    return {};
  }
  std::string token_bytes(TokenId id) const override { return token_string(id); }
  std::string token_string(TokenId id) const override {
    const auto other = others_.find(id.value);
    return other != others_.end() ? other->second : std::string(1, static_cast<char>(id.value));
  }
  std::optional<TokenId> token_to_id(std::string_view) const override { return {}; }
  bool is_special(TokenId) const override { return false; }
  int64_t vocab_size() const override { return size_; }

 private:
  const bool leads_;
  const std::map<int32_t, std::string> others_;
  const int64_t size_;
};

std::string write_file(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + "/eval_text_test_" + name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

TEST(EvalTextTest, TheBuiltInTextIsText) {
  const auto text = read_eval_text("builtin");
  ASSERT_TRUE(text);
  EXPECT_GT(text->size(), 7000u);
  EXPECT_THAT(*text, HasSubstr("Marta"));
  EXPECT_THAT(*text, HasSubstr("double next_opening("));
}

TEST(EvalTextTest, FilesThatAreNoTextAreNamed) {
  const std::vector<std::pair<std::string, std::string>> files = {
      {write_file("empty", ""), "is empty"},
      {write_file("zeros", std::string("a\0b", 3)), "not a text"},
      {testing::TempDir() + "/eval_text_test_missing", "No such file"},
      {testing::TempDir(), "directory"},
  };
  for (const auto& [path, what] : files) {
    const auto text = read_eval_text(path);
    ASSERT_FALSE(text) << path;
    EXPECT_THAT(text.error().message, HasSubstr(what));
    EXPECT_THAT(text.error().message, HasSubstr(path));
  }
  EXPECT_EQ(*read_eval_text(write_file("good", "a text")), "a text");
}

TEST(EvalTextTest, TokensOfAText) {
  const LetterTokenizer tokenizer(true);
  const auto tokens = encode_eval_text(tokenizer, "abcdef", 4, "f");
  ASSERT_TRUE(tokens);
  EXPECT_THAT(*tokens, testing::ElementsAre(TokenId{'a'}, TokenId{'b'}, TokenId{'c'}, TokenId{'d'}));
  EXPECT_EQ(*leading_token(tokenizer), TokenId{1});
  EXPECT_FALSE(leading_token(LetterTokenizer(false))->has_value());
  const auto one = encode_eval_text(tokenizer, "a", 4, "f");
  ASSERT_FALSE(one);
  EXPECT_THAT(one.error().message, HasSubstr("too short"));
  const auto bytes = encode_eval_text(tokenizer, "\xff\xff", 4, "f");
  ASSERT_FALSE(bytes);
  EXPECT_THAT(bytes.error().message, HasSubstr("--text f: not UTF-8"));
}

TEST(EvalTextTest, VocabulariesAreTheSameOrTheFirstDifferenceIsNamed) {
  const LetterTokenizer letters(true), longer(true, {}, 300), other(false, {{66, "!"}}),
      unnamed(true, {{66, ""}});
  EXPECT_TRUE(check_same_vocabulary(letters, longer));
  EXPECT_TRUE(check_same_vocabulary(longer, letters));
  EXPECT_TRUE(check_same_vocabulary(letters, unnamed));
  const auto differs = check_same_vocabulary(letters, other);
  ASSERT_FALSE(differs);
  EXPECT_THAT(differs.error().message, HasSubstr("token 66 is 'B' there and '!' here"));
}

}  // namespace
}  // namespace pagoda::cli
