#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "text/tests/text_fixtures.h"
#include "text/tests/tiny_tokenizers.h"

namespace pagoda::text {
namespace {

using testing::HasSubstr;

constexpr EncodeOptions kParsed{.add_special_tokens = false, .parse_special_tokens = true};
constexpr EncodeOptions kPlain{.add_special_tokens = false, .parse_special_tokens = false};

std::vector<std::string> tokens_of(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<std::string> out;
  for (const int id : encode(tokenizer, text, kParsed)) out.push_back(tokenizer.token_string(TokenId{id}));
  return out;
}

TEST(Tokenizer, special_text_is_a_token_only_when_asked_for) {
  const auto tokenizer = load_or_fail(byte_tokenizer_json({{"<s>"}, {"<|a|>"}, {"<think>", false}}, "<s>"));
  EXPECT_EQ(encode(*tokenizer, "x<|a|>", {}), (std::vector<int>{256, 'x', 257}));
  EXPECT_EQ(encode(*tokenizer, "x<|a|>", kParsed), (std::vector<int>{'x', 257}));
  EXPECT_EQ(encode(*tokenizer, "x<|a|>", kPlain), (std::vector<int>{'x', '<', '|', 'a', '|', '>'}));
  EXPECT_EQ(encode(*tokenizer, "<think>", kPlain), (std::vector<int>{258}))
      << "an added token that is no control token";
  EXPECT_TRUE(tokenizer->is_special(TokenId{257}));
  EXPECT_FALSE(tokenizer->is_special(TokenId{258}));
  EXPECT_FALSE(tokenizer->is_special(TokenId{'x'}));
  EXPECT_FALSE(tokenizer->is_special(TokenId{-1}));
}

TEST(Tokenizer, vocabulary_look_ups) {
  const auto tokenizer = load_or_fail(byte_tokenizer_json({{"<s>"}, {"<｜x｜>"}}));
  EXPECT_EQ(tokenizer->vocab_size(), 258);
  EXPECT_EQ(tokenizer->token_to_id("<s>"), TokenId{256});
  EXPECT_EQ(tokenizer->token_to_id("Ġ"), TokenId{' '});
  EXPECT_EQ(tokenizer->token_to_id("nope"), std::nullopt);
  EXPECT_EQ(tokenizer->token_string(TokenId{' '}), "Ġ");
  EXPECT_EQ(tokenizer->token_string(TokenId{257}), "<｜x｜>");
  EXPECT_EQ(tokenizer->token_string(TokenId{258}), "");
  EXPECT_EQ(tokenizer->token_bytes(TokenId{257}), "<｜x｜>");
  EXPECT_EQ(tokenizer->token_bytes(TokenId{999}), "");
  for (int b = 0; b < 256; ++b)
    EXPECT_EQ(tokenizer->token_bytes(TokenId{b}), std::string(1, static_cast<char>(b)));
}

TEST(Tokenizer, bytes_of_sentencepiece_tokens) {
  const auto tokenizer = load_or_fail(piece_tokenizer_json("first"));
  EXPECT_EQ(tokenizer->token_bytes(TokenId{7}), " hi");
  EXPECT_EQ(tokenizer->token_bytes(TokenId{16 + 0xE4}), "\xE4");
  EXPECT_EQ(tokenizer->token_bytes(TokenId{1}), "<s>");
}

TEST(Tokenizer, bad_input_is_an_error) {
  const auto tokenizer = load_or_fail(byte_tokenizer_json({}));
  auto ids = tokenizer->encode("ab\xFF", {});
  ASSERT_FALSE(ids.has_value());
  EXPECT_EQ(ids.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(ids.error().message, HasSubstr("UTF-8"));
  for (const int id : {-1, 256, 1 << 30}) {
    auto text = tokenizer->decode(to_ids({'a', id}), false);
    ASSERT_FALSE(text.has_value()) << id;
    EXPECT_EQ(text.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(text.error().message, HasSubstr(std::to_string(id)));
  }
}

TEST(Tokenizer, broken_files_are_errors) {
  const std::string good = byte_tokenizer_json({{"<s>"}});
  for (const std::string& json :
       {std::string(), std::string("{}"), std::string("[1]"), good.substr(0, good.size() / 2),
        std::string(100000, '['), std::string("\xFF")}) {
    auto tokenizer = load_tokenizer(json);
    ASSERT_FALSE(tokenizer.has_value());
    EXPECT_EQ(tokenizer.error().kind, ErrorKind::kCorruptFile) << tokenizer.error().message;
  }
  // An id of four thousand million must not become a table of that size.
  std::string sparse = good;
  sparse.replace(sparse.find("\"a\":97"), 6, "\"a\":4294967295");
  EXPECT_FALSE(load_tokenizer(sparse).has_value());
}

TEST(Tokenizer, truncation_and_padding_of_the_file_are_dropped) {
  auto json = nlohmann::ordered_json::parse(byte_tokenizer_json({}));
  json["truncation"] = {
      {"direction", "Right"}, {"max_length", 2}, {"strategy", "LongestFirst"}, {"stride", 0}};
  json["padding"] = {
      {"strategy", {{"Fixed", 8}}}, {"direction", "Right"}, {"pad_to_multiple_of", nullptr}, {"pad_id", 0},
      {"pad_type_id", 0},           {"pad_token", "x"}};
  const auto tokenizer = load_or_fail(json.dump());
  EXPECT_EQ(encode(*tokenizer, "abcd", {}), (std::vector<int>{'a', 'b', 'c', 'd'}));
}

// CASES B081
TEST(Tokenizer, prefix_space_follows_the_prepend_scheme) {
  struct Row {
    const char* text;
    std::vector<int> always, first, never, normalizer;
  };
  const std::vector<Row> rows = {
      {"hi", {7}, {7}, {8}, {7}},
      {"<s>hi", {1, 7}, {1, 8}, {1, 8}, {1, 7}},
      {"<s> hi", {1, 7}, {1, 7}, {1, 7}, {1, 3, 7}},
      {"hi</s>hi", {7, 2, 7}, {7, 2, 8}, {8, 2, 8}, {7, 2, 7}},
      {" hi", {7}, {7}, {7}, {3, 7}},
      {"🦙",
       {3, 256, 175, 182, 169},
       {3, 256, 175, 182, 169},
       {256, 175, 182, 169},
       {3, 256, 175, 182, 169}},
      {"", {}, {}, {}, {}},
  };
  const auto always = load_or_fail(piece_tokenizer_json("always")),
             first = load_or_fail(piece_tokenizer_json("first"));
  const auto never = load_or_fail(piece_tokenizer_json("never")),
             normalizer = load_or_fail(piece_tokenizer_json(""));
  for (const Row& row : rows) {
    EXPECT_EQ(encode(*always, row.text, kParsed), row.always) << row.text;
    EXPECT_EQ(encode(*first, row.text, kParsed), row.first) << row.text;
    EXPECT_EQ(encode(*never, row.text, kParsed), row.never) << row.text;
    EXPECT_EQ(encode(*normalizer, row.text, kParsed), row.normalizer) << row.text;
  }
}

// CASES B082
TEST(Tokenizer, added_tokens_take_the_spaces_that_they_ask_for) {
  const std::string text = "a <|x|>  ab";
  const auto of = [&](bool lstrip, bool rstrip) {
    const auto tokenizer = load_or_fail(byte_tokenizer_json({{"<|x|>", true, lstrip, rstrip}}));
    return tokens_of(*tokenizer, text);
  };
  using Tokens = std::vector<std::string>;
  EXPECT_EQ(of(false, false), (Tokens{"a", "Ġ", "<|x|>", "Ġ", "Ġ", "a", "b"}));
  EXPECT_EQ(of(true, false), (Tokens{"a", "<|x|>", "Ġ", "Ġ", "a", "b"}));
  EXPECT_EQ(of(false, true), (Tokens{"a", "Ġ", "<|x|>", "a", "b"}));
  EXPECT_EQ(of(true, true), (Tokens{"a", "<|x|>", "a", "b"}));
}

// CASES B085
TEST(Tokenizer, byte_level_text_survives_any_number_of_rounds) {
  const auto tokenizer = load_or_fail(byte_tokenizer_json({{"<s>"}}));
  std::string text = "  \t x\r\n";
  for (int c = 0; c < 0x80; ++c) text += static_cast<char>(c);
  text += "éßЖ中😀\u200D\u0301 \u00A0 ";
  for (int round = 0; round < 10; ++round) {
    auto decoded = tokenizer->decode(to_ids(encode(*tokenizer, text, kPlain)), false);
    ASSERT_TRUE(decoded.has_value());
    ASSERT_EQ(*decoded, text) << round;
  }
}

TEST(Tokenizer, is_shared_by_threads) {
  PAGODA_GOLDEN_TOKENIZER(tokenizer, "smollm2");
  const std::string text = "def f(x):\n    return x + 1\n  中文 😀 <|im_end|>";
  const std::vector<int> expected = encode(tokenizer, text, kParsed);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        auto ids = tokenizer.encode(text, kParsed);
        auto decoded = ids ? tokenizer.decode(*ids, false) : Result<std::string>(std::string());
        wrong[t] += !ids || values(*ids) != expected || *decoded != text;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

}  // namespace
}  // namespace pagoda::text
