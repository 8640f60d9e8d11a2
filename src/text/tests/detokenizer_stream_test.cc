// CASES B001-B004, B011, B012: incremental decoding.
#include <gtest/gtest.h>

#include <random>

#include "text/tests/text_fixtures.h"
#include "text/tests/tiny_tokenizers.h"

namespace pagoda::text {
namespace {

constexpr const char* kReplacement = "\uFFFD";

std::vector<int> bytes_of(const std::string& text) {
  std::vector<int> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

class Streams : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(bytes_ != nullptr && pieces_ != nullptr); }

  const std::shared_ptr<const Tokenizer> bytes_ = load_or_fail(byte_tokenizer_json({{"<s>"}, {"<end>"}}));
  const std::shared_ptr<const Tokenizer> pieces_ = load_or_fail(piece_tokenizer_json("first"));
};

TEST_F(Streams, a_character_comes_when_it_is_whole) {
  EXPECT_EQ(stream_pieces(*bytes_, bytes_of("a😀b")), (std::vector<std::string>{"a", "", "", "", "😀", "b"}));
  for (const std::string text : {"👨‍👩‍👧‍👦", "🇩🇪🇫🇷", "हिन्दी", "中文", "é",
                                 "\u07FF\u0800\uFFFF\U00010000\U0010FFFF"}) {
    for (const auto& piece : stream_pieces(*bytes_, bytes_of(text)))
      EXPECT_EQ(piece.find(kReplacement), std::string::npos);
    EXPECT_EQ(join(stream_pieces(*bytes_, bytes_of(text))), text);
  }
}

// B002: one U+FFFD for what is incomplete, and the same text without streaming.
TEST_F(Streams, an_incomplete_end_is_one_replacement) {
  for (const std::string text : {"a\xF0", "a\xF0\x9F", "a\xF0\x9F\x98", "a\xE4\xB8", "a\xC3"}) {
    EXPECT_EQ(join(stream_pieces(*bytes_, bytes_of(text))), std::string("a") + kReplacement);
    auto decoded = bytes_->decode(to_ids(bytes_of(text)), false);
    ASSERT_TRUE(decoded.has_value());
    EXPECT_EQ(*decoded, std::string("a") + kReplacement);
  }
  EXPECT_EQ(join(stream_pieces(*pieces_, {8, 16 + 0xF0, 16 + 0x9F, 16 + 0xA6})),
            std::string("hi") + kReplacement);
}

// B004
TEST_F(Streams, invalid_bytes_take_nothing_with_them) {
  const std::string r = kReplacement;
  EXPECT_EQ(join(stream_pieces(*bytes_, bytes_of("\xE2\x82"
                                                 "A"))),
            r + "A");
  EXPECT_EQ(join(stream_pieces(*bytes_, bytes_of("\xFFh"))), r + "h");
  EXPECT_EQ(join(stream_pieces(*bytes_, bytes_of("\xED\xA0\x80"))), r + r + r);
  EXPECT_EQ(join(stream_pieces(*bytes_, bytes_of("\xC0\xAF"))), r + r);
  EXPECT_EQ(join(stream_pieces(*bytes_, bytes_of("\xF4\x90\x80\x80"))), r + r + r + r);
  EXPECT_EQ(join(stream_pieces(*pieces_, {16 + 0xE2, 16 + 0x82, 16 + 'A'})), r + "A")
      << "A as a byte token survives";
  EXPECT_EQ(stream_pieces(*bytes_, bytes_of("\xE2\x82"
                                            "A")),
            (std::vector<std::string>{"", "", r + "A"}));
}

// B012
TEST_F(Streams, the_first_space_is_dropped_once_and_only_at_the_beginning) {
  EXPECT_EQ(stream_pieces(*pieces_, {7, 7}), (std::vector<std::string>{"hi", " hi"}));
  EXPECT_EQ(stream_pieces(*pieces_, {3, 7, 9}), (std::vector<std::string>{"", " hi", " x"}));
  EXPECT_EQ(stream_pieces(*pieces_, {7}, {8}), (std::vector<std::string>{" hi"})) << "after a prompt";
  EXPECT_EQ(stream_pieces(*pieces_, {7}, {1}, true), (std::vector<std::string>{"hi"}))
      << "after a hidden BOS";
  EXPECT_EQ(stream_pieces(*pieces_, {7}, {1}, false), (std::vector<std::string>{" hi"}))
      << "after a visible BOS";
  EXPECT_EQ(stream_pieces(*pieces_, {1, 7}, {}, true), (std::vector<std::string>{"", "hi"}));
  EXPECT_EQ(stream_pieces(*bytes_, bytes_of(" a")), (std::vector<std::string>{" ", "a"}))
      << "byte level keeps it";
}

// B011
TEST_F(Streams, special_tokens_are_text_or_nothing) {
  EXPECT_EQ(stream_pieces(*bytes_, {'a', 257}, {}, true), (std::vector<std::string>{"a", ""}));
  EXPECT_EQ(stream_pieces(*bytes_, {'a', 257}, {}, false), (std::vector<std::string>{"a", "<end>"}));
}

TEST_F(Streams, ids_without_an_entry_are_no_text) {
  EXPECT_EQ(stream_pieces(*bytes_, {'a', 258, 100000, 'b'}), (std::vector<std::string>{"a", "", "", "b"}));
  auto stream = bytes_->stream({}, false);
  EXPECT_FALSE(stream->push(TokenId{-1}).has_value());
}

TEST_F(Streams, outlive_their_tokenizer) {
  auto tokenizer = load_or_fail(byte_tokenizer_json({}));
  auto stream = tokenizer->stream({}, false);
  tokenizer.reset();
  EXPECT_EQ(*stream->push(TokenId{'x'}), "x");
}

// Random ids, most of them no text at all: the stream's text is decode's text, and it is always UTF-8.
TEST_F(Streams, pieces_add_up_to_the_decoded_text) {
  for (const auto& tokenizer : {bytes_, pieces_}) {
    for (uint64_t seed = 0; seed < 2000; ++seed) {
      std::mt19937_64 rng(seed);
      std::vector<int> ids;
      for (uint64_t i = 0, length = rng() % 12; i < length; ++i) {
        const int id = static_cast<int>(rng() % static_cast<uint64_t>(tokenizer->vocab_size()));
        if (!tokenizer->token_string(TokenId{id}).empty()) ids.push_back(id);
      }
      const bool skip_special = rng() % 2 == 0;
      auto decoded = tokenizer->decode(to_ids(ids), skip_special);
      ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
      ASSERT_EQ(join(stream_pieces(*tokenizer, ids, {}, skip_special)), *decoded) << "seed " << seed;
      ASSERT_TRUE(tokenizer->encode(*decoded, {}).has_value()) << "not UTF-8, seed " << seed;
    }
  }
}

// A decoder that looks at neighbours is left to the crate, window by window.
TEST_F(Streams, other_decoders_stream_too) {
  nlohmann::ordered_json json = {{"version", "1.0"},
                                 {"added_tokens", nlohmann::ordered_json::array()},
                                 {"normalizer", nullptr},
                                 {"pre_tokenizer", {{"type", "Whitespace"}}},
                                 {"post_processor", nullptr},
                                 {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
                                 {"model",
                                  {{"type", "WordPiece"},
                                   {"unk_token", "?"},
                                   {"continuing_subword_prefix", "##"},
                                   {"max_input_chars_per_word", 100},
                                   {"vocab", {{"?", 0}, {"play", 1}, {"##ing", 2}, {"well", 3}, {".", 4}}}}}};
  const auto tokenizer = load_or_fail(json.dump());
  const std::vector<int> ids = encode(*tokenizer, "playing well .", {});
  EXPECT_EQ(ids, (std::vector<int>{1, 2, 3, 4}));
  EXPECT_EQ(join(stream_pieces(*tokenizer, ids)), "playing well.");
  EXPECT_EQ(stream_pieces(*tokenizer, {3}, {1}), (std::vector<std::string>{" well"}));
}

}  // namespace
}  // namespace pagoda::text
