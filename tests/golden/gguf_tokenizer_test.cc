// GGUF vocabularies against the tokenizer.json files that they were made from.
#include "model/loader/gguf_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "model/loader/gguf_config.h"
#include "model/loader/gguf_file.h"
#include "text/tests/text_fixtures.h"

namespace pagoda::model {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;
using text::encode;

std::string json_or_fail(const GgufVocabulary& vocabulary) {
  auto json = gguf_tokenizer_json(vocabulary);
  EXPECT_TRUE(json.has_value()) << (json ? "" : json.error().message);
  return json ? *json : std::string();
}

GgufVocabulary vocabulary_of(const std::filesystem::path& path) {
  auto file = GgufFile::open(path.string());
  EXPECT_TRUE(file.has_value()) << (file ? "" : file.error().message);
  if (!file) return {};
  auto vocabulary = gguf_vocabulary(*file);
  EXPECT_TRUE(vocabulary.has_value()) << (vocabulary ? "" : vocabulary.error().message);
  return vocabulary ? *std::move(vocabulary) : GgufVocabulary{};
}

// Every stored case of golden/tok/NAME.json, special texts parsed and taken literally.
void expect_golden_ids(const text::Tokenizer& tokenizer, const std::string& name) {
  const auto golden = text::read_json(*testing_support::shared_dir() / "golden" / "tok" / (name + ".json"));
  int compared = 0;
  for (const char* list : {"cases", "disputed"}) {
    for (const auto& row : golden[list]) {
      const std::string input = row["s"];
      EXPECT_EQ(encode(tokenizer, input, {false, true}), row["parsed"].get<std::vector<int>>()) << row["s"];
      EXPECT_EQ(encode(tokenizer, input, {false, false}), row["plain"].get<std::vector<int>>()) << row["s"];
      EXPECT_EQ(text::stream_pieces(tokenizer, row["parsed"].get<std::vector<int>>()),
                row["pieces"].get<std::vector<std::string>>())
          << row["s"];
      ++compared;
    }
  }
  EXPECT_GT(compared, 180);
}

void expect_same_tokenizer(const std::filesystem::path& gguf, const std::string& name) {
  SCOPED_TRACE(gguf.string());
  const auto original = text::golden_tokenizer(name);
  const auto converted = text::load_or_fail(json_or_fail(vocabulary_of(gguf)));
  ASSERT_NE(converted, nullptr);
  expect_golden_ids(*converted, name);
  ASSERT_NE(original, nullptr);
  ASSERT_EQ(converted->vocab_size(), original->vocab_size());
  for (int id = 0; id < original->vocab_size(); ++id) {
    EXPECT_EQ(converted->token_string(TokenId{id}), original->token_string(TokenId{id})) << id;
    EXPECT_EQ(converted->token_bytes(TokenId{id}), original->token_bytes(TokenId{id})) << id;
    EXPECT_EQ(converted->is_special(TokenId{id}), original->is_special(TokenId{id})) << id;
  }
  for (const char* input : {"", "Hello", "  a\n"}) {
    EXPECT_EQ(encode(*converted, input, {}), encode(*original, input, {}))
        << "BOS and EOS of '" << input << "'";
  }
}

// The qwen2 file shows what GGUF has no field for and the name of the pre-tokenizer stands for: the NFC
// normalizer.
TEST(GgufTokenizerGolden, golden_files_give_the_ids_of_their_tokenizer_json) {
  const auto shared = testing_support::shared_dir();
  if (!shared) GTEST_SKIP() << "the folder `shared` is not here";
  const std::filesystem::path folder = *shared / "golden" / "gguf";
  for (const char* type : {"f32", "q8_0", "q4_k_m", "iq4_xs"}) {
    expect_same_tokenizer(folder / (std::string("llama-") + type + ".gguf"), "bpe_l3");
    expect_same_tokenizer(folder / (std::string("qwen2-") + type + ".gguf"), "bpe_qwen");
  }
  expect_same_tokenizer(folder / "llama-spm-f16.gguf", "spm_norm");
}

TEST(GgufTokenizerGolden, smollm2_gives_the_ids_of_its_tokenizer_json) {
  const auto shared = testing_support::shared_dir();
  const auto model = testing_support::model_file("smollm2-135m-instruct-q4_1.gguf");
  if (!shared || !model) GTEST_SKIP() << "the SmolLM2 file or the folder `shared` is not here";
  const auto converted = text::load_or_fail(json_or_fail(vocabulary_of(*model)));
  ASSERT_NE(converted, nullptr);
  expect_golden_ids(*converted, "smollm2");
}

// Gemma 3's GGUF files carry a SentencePiece vocabulary. No file is at hand, so one is made of the
// tokenizer.json: the tokens as they are, and as the score of each the place of its first merge.
TEST(GgufTokenizerGolden, gemma3_vocabulary_with_scores_gives_the_ids_of_its_tokenizer_json) {
  const std::string json = text::golden_tokenizer_json("gemma3");
  if (json.empty()) GTEST_SKIP() << "the Gemma 3 tokenizer (or xz) is not here";
  // Plain json: an ordered_json object takes quadratic time for 262,144 keys.
  const nlohmann::json original = nlohmann::json::parse(json);
  GgufVocabulary vocabulary;
  vocabulary.model = "llama";
  vocabulary.pre = "default";
  const auto& vocab = original["model"]["vocab"];
  vocabulary.tokens.resize(vocab.size());
  std::map<std::string, float> rank;
  float place = 0;
  for (const auto& merge : original["model"]["merges"]) {
    rank.emplace(merge[0].get<std::string>() + merge[1].get<std::string>(), place);
    place -= 1;
  }
  vocabulary.scores.assign(vocab.size(), place);
  vocabulary.token_types.assign(vocab.size(), 1);
  for (const auto& [token, id] : vocab.items()) {
    vocabulary.tokens[id.get<size_t>()] = token;
    if (const auto found = rank.find(token); found != rank.end())
      vocabulary.scores[id.get<size_t>()] = found->second;
    if (token.size() == 6 && token.starts_with("<0x")) vocabulary.token_types[id.get<size_t>()] = 6;
  }
  for (const auto& added : original["added_tokens"]) {
    vocabulary.token_types[added["id"].get<size_t>()] = added["special"].get<bool>() ? 3 : 4;
  }
  vocabulary.bos_id = vocab["<bos>"].get<int64_t>();
  vocabulary.eos_id = vocab["<eos>"].get<int64_t>();
  vocabulary.unk_id = vocab["<unk>"].get<int64_t>();
  vocabulary.add_space_prefix = false;
  const auto converted = text::load_or_fail(json_or_fail(vocabulary));
  ASSERT_NE(converted, nullptr);
  expect_golden_ids(*converted, "gemma3");
  EXPECT_EQ(encode(*converted, "", {}), std::vector<int>{2});
}

// A byte-level vocabulary of single bytes and the given words, each built up from its first character on.
GgufVocabulary byte_level(const std::string& pre, const std::vector<std::string>& words) {
  GgufVocabulary vocabulary;
  vocabulary.model = "gpt2";
  vocabulary.pre = pre;
  const auto add = [&](const std::string& token) {
    const auto& tokens = vocabulary.tokens;
    if (std::find(tokens.begin(), tokens.end(), token) == tokens.end()) vocabulary.tokens.push_back(token);
  };
  for (char c = '!'; c <= '~'; ++c) add(std::string(1, c));
  vocabulary.merges = {"x y"};
  add("xy");
  for (const std::string& word : words) add(word);
  return vocabulary;
}

std::vector<std::string> tokens_of(const text::Tokenizer& tokenizer, const std::string& input) {
  std::vector<std::string> tokens;
  for (const int id : encode(tokenizer, input, {})) tokens.push_back(tokenizer.token_string(TokenId{id}));
  return tokens;
}

// CASES B080
TEST(GgufTokenizer, whole_words_come_before_merges_where_the_family_says_so) {
  const auto llama = text::load_or_fail(json_or_fail(byte_level("llama-bpe", {"xyz"})));
  EXPECT_EQ(tokens_of(*llama, "xyz"), (std::vector<std::string>{"xyz"}));
  const auto qwen = text::load_or_fail(json_or_fail(byte_level("qwen2", {"xyz"})));
  EXPECT_EQ(tokens_of(*qwen, "xyz"), (std::vector<std::string>{"xy", "z"}));
}

// GPT-2's alphabet: how a byte-level vocabulary spells these bytes.
std::string spelled(const std::string& bytes) {
  std::string out;
  int unprintable = 0;
  std::map<int, int> code;
  for (int b = 0; b < 256; ++b) {
    const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    code[b] = printable ? b : 256 + unprintable++;
  }
  for (const char byte : bytes) {
    const int c = code[static_cast<unsigned char>(byte)];
    if (c < 0x80) {
      out += static_cast<char>(c);
    } else {
      out += static_cast<char>(0xC0 | (c >> 6));
      out += static_cast<char>(0x80 | (c & 0x3F));
    }
  }
  return out;
}

// The pieces that the pre-tokenizer of this name makes: with whole pieces as the vocabulary, a piece that
// does not come out of the pre-tokenizer is an unknown word.
void expect_pieces(const std::string& pre, const std::string& input, const std::vector<std::string>& pieces) {
  auto json = ordered_json::parse(json_or_fail(byte_level(pre, {})));
  ordered_json vocab = {{"<unknown>", 0}};
  std::vector<int> expected;
  for (const std::string& piece : pieces) {
    const auto entry = vocab.emplace(spelled(piece), static_cast<int>(vocab.size())).first;
    expected.push_back(entry->get<int>());
  }
  json["model"] = {{"type", "WordLevel"}, {"unk_token", "<unknown>"}, {"vocab", vocab}};
  const auto tokenizer = text::load_or_fail(json.dump());
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(encode(*tokenizer, input, {false, true}), expected) << pre << ": " << input;
}

// CASES B083
TEST(GgufTokenizer, families_split_words_as_their_models_were_trained) {
  using Pieces = std::vector<std::string>;
  expect_pieces("llama-bpe", "I'LL pay 12345 now", Pieces{"I", "'LL", " pay", " ", "123", "45", " now"});
  expect_pieces("qwen2", "I'LL pay 12345 now",
                Pieces{"I", "'LL", " pay", " ", "1", "2", "3", "4", "5", " now"});
  expect_pieces("gpt-2", "I'LL pay 12345 now", Pieces{"I", "'", "LL", " pay", " 12345", " now"});
  for (const char* pre : {"llama-bpe", "qwen2", "gpt-2"}) {
    expect_pieces(pre, "a   b", Pieces{"a", "  ", " b"});
    expect_pieces(pre, "  \t\n z", Pieces{"  \t\n", " z"});
  }
  expect_pieces("llama-bpe", "x\n\n\n  y", Pieces{"x", "\n\n\n", " ", " y"});
  expect_pieces("gpt-2", "x\n\n\n  y", Pieces{"x", "\n\n\n ", " y"});
  expect_pieces("qwen2", "!!\n\nok", Pieces{"!!\n\n", "ok"});
  expect_pieces("gpt-2", "!!\n\nok", Pieces{"!!", "\n", "\n", "ok"});
  expect_pieces("llama-bpe", "don\u2019t", Pieces{"don", "\u2019t"});
  expect_pieces("gpt-2", "don\u2019t", Pieces{"don", "\u2019", "t"});
  expect_pieces("llama-bpe", "٣٤٥٦", Pieces{"٣٤٥", "٦"});
  expect_pieces("qwen2", "٣٤٥٦", Pieces{"٣", "٤", "٥", "٦"});
  expect_pieces("gpt-2", "٣٤٥٦", Pieces{"٣٤٥٦"});
  expect_pieces("llama-bpe", "1½2", Pieces{"1½2"});
  expect_pieces("qwen2", "1½2", Pieces{"1", "½", "2"});
  expect_pieces("smollm", "ab 123", Pieces{"ab", " ", "1", "2", "3"});
  expect_pieces("tekken", "HelloWorld a/\n", Pieces{"Hello", "World", " a", "/\n"});
  expect_pieces("gpt-4o", "It's 1234", Pieces{"It's", " ", "123", "4"});
  expect_pieces("deepseek-v3", "a1234 中文x", Pieces{"a", "123", "4", " ", "中文", "x"});
}

TEST(GgufTokenizer, every_supported_pre_tokenizer_loads) {
  for (const std::string_view name : supported_gguf_pre_tokenizers()) {
    const auto tokenizer = text::load_or_fail(json_or_fail(byte_level(std::string(name), {})));
    ASSERT_NE(tokenizer, nullptr) << name;
    EXPECT_EQ(tokens_of(*tokenizer, "xyx"), (std::vector<std::string>{"xy", "x"})) << name;
  }
  EXPECT_TRUE(gguf_tokenizer_json(byte_level("", {})).has_value());
}

GgufVocabulary sentencepiece() {
  GgufVocabulary vocabulary;
  vocabulary.model = "llama";
  vocabulary.tokens = {"<unk>", "<s>", "</s>", "\u2581", "h", "i", "\u2581h", "\u2581hi", "hi", "<tool>"};
  vocabulary.scores = {0, 0, 0, -9, -9, -9, -2, -1, -3, 0};
  vocabulary.token_types = {2, 3, 3, 1, 1, 1, 1, 1, 1, 4};
  vocabulary.unk_id = 0;
  vocabulary.bos_id = 1;
  vocabulary.eos_id = 2;
  return vocabulary;
}

// CASES B081, the column of the older normalizer; user-defined tokens are found in literal text too.
TEST(GgufTokenizer, sentencepiece_puts_a_space_in_front_of_every_text) {
  const auto tokenizer = text::load_or_fail(json_or_fail(sentencepiece()));
  EXPECT_EQ(encode(*tokenizer, "hi", {false, true}), (std::vector<int>{7}));
  EXPECT_EQ(encode(*tokenizer, "hi", {}), (std::vector<int>{1, 7}));
  EXPECT_EQ(encode(*tokenizer, "<s> hi", {false, true}), (std::vector<int>{1, 3, 7}));
  EXPECT_EQ(encode(*tokenizer, "hi</s>hi", {false, true}), (std::vector<int>{7, 2, 7}));
  EXPECT_EQ(encode(*tokenizer, "hi<tool>", {false, false}), (std::vector<int>{7, 9}));
  EXPECT_EQ(text::stream_pieces(*tokenizer, {7, 7}), (std::vector<std::string>{"hi", " hi"}));
}

TEST(GgufTokenizer, fields_about_bos_eos_and_spaces_are_obeyed) {
  GgufVocabulary vocabulary = sentencepiece();
  vocabulary.add_bos = false;
  vocabulary.add_eos = true;
  vocabulary.add_space_prefix = false;
  const auto tokenizer = text::load_or_fail(json_or_fail(vocabulary));
  EXPECT_EQ(encode(*tokenizer, "hi hi", {}), (std::vector<int>{8, 7, 2}));
  EXPECT_EQ(text::stream_pieces(*tokenizer, {7}), (std::vector<std::string>{" hi"}));
}

struct Broken {
  const char* name;
  void (*damage)(GgufVocabulary&);
  const char* message;
};

// CASES B089
TEST(GgufTokenizer, contradictions_are_errors_that_name_the_key) {
  const std::vector<Broken> cases = {
      {"no tokens", [](GgufVocabulary& v) { v.tokens.clear(); }, "tokenizer.ggml.tokens is empty"},
      {"types", [](GgufVocabulary& v) { v.token_types.pop_back(); }, "token_type has 9 entries"},
      {"type", [](GgufVocabulary& v) { v.token_types[4] = -1; }, "token_type[4] is no token type"},
      {"scores", [](GgufVocabulary& v) { v.scores.pop_back(); }, "scores has 9 entries"},
      {"nan", [](GgufVocabulary& v) { v.scores[5] = std::numeric_limits<float>::quiet_NaN(); }, "scores[5]"},
      {"bos", [](GgufVocabulary& v) { v.bos_id = 10; }, "bos_token_id is 10, the vocabulary has 10 tokens"},
      {"eos", [](GgufVocabulary& v) { v.eos_id = -1; }, "eos_token_id is -1"},
      {"unknown", [](GgufVocabulary& v) { v.unk_id = 1 << 30; }, "unknown_token_id"},
      {"twice", [](GgufVocabulary& v) { v.tokens[5] = "h"; },
       "tokens 4 and 5 of tokenizer.ggml.tokens are the same"},
      {"utf8", [](GgufVocabulary& v) { v.tokens[5] = "\xC0\xAF"; },
       "token 5 of tokenizer.ggml.tokens is not UTF-8"},
      {"surrogate", [](GgufVocabulary& v) { v.tokens[5] = "\xED\xA0\x80"; }, "not UTF-8"},
  };
  for (const Broken& one : cases) {
    GgufVocabulary vocabulary = sentencepiece();
    one.damage(vocabulary);
    auto json = gguf_tokenizer_json(vocabulary);
    ASSERT_FALSE(json.has_value()) << one.name;
    EXPECT_EQ(json.error().kind, ErrorKind::kCorruptFile) << one.name;
    EXPECT_THAT(json.error().message, HasSubstr(one.message));
  }
}

TEST(GgufTokenizer, merges_are_checked) {
  for (const auto& [merge, message] :
       std::map<std::string, std::string>{{"xy", "merges[1] is not two tokens"},
                                          {"x ", "not two tokens"},
                                          {"x q", "needs a token"},
                                          {"", "not two"}}) {
    GgufVocabulary vocabulary = byte_level("gpt-2", {});
    vocabulary.merges.push_back(merge);
    auto json = gguf_tokenizer_json(vocabulary);
    ASSERT_FALSE(json.has_value()) << merge;
    EXPECT_EQ(json.error().kind, ErrorKind::kCorruptFile);
    EXPECT_THAT(json.error().message, HasSubstr(message));
  }
  GgufVocabulary none = byte_level("gpt-2", {});
  none.merges.clear();
  EXPECT_FALSE(gguf_tokenizer_json(none).has_value());
}

TEST(GgufTokenizer, unknown_kinds_are_named_with_those_that_are_known) {
  auto json = gguf_tokenizer_json(byte_level("brand-new", {}));
  ASSERT_FALSE(json.has_value());
  EXPECT_EQ(json.error().kind, ErrorKind::kUnsupportedModel);
  EXPECT_THAT(json.error().message, HasSubstr("'brand-new'"));
  EXPECT_THAT(json.error().message, HasSubstr("llama-bpe"));
  GgufVocabulary t5 = sentencepiece();
  t5.model = "t5";
  json = gguf_tokenizer_json(t5);
  ASSERT_FALSE(json.has_value());
  EXPECT_EQ(json.error().kind, ErrorKind::kUnsupportedModel);
  EXPECT_THAT(json.error().message, HasSubstr("'t5'"));
}

}  // namespace
}  // namespace pagoda::model
