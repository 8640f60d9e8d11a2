#include "text/fim_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/tests/text_fixtures.h"
#include "text/tests/tiny_tokenizers.h"

namespace pagoda::text {
namespace {

using testing::HasSubstr;

std::vector<AddedToken> added(const std::vector<std::string>& names) {
  std::vector<AddedToken> tokens;
  for (const std::string& name : names) tokens.push_back({name});
  return tokens;
}

std::shared_ptr<const Tokenizer> tokenizer_with(const std::vector<std::string>& names,
                                                const std::string& bos = "") {
  return load_or_fail(byte_tokenizer_json(added(names), bos));
}

// The prompt for prefix "P" and suffix "S", decoded.
std::string prompt(const Tokenizer& tokenizer, const FimTemplate& fim) {
  std::vector<TokenId> ids;
  for (const FimTemplate::Part& part : fim.parts()) {
    auto more = part.ids;
    if (part.kind == FimTemplate::Part::Kind::kPrefix) more = {TokenId{'P'}};
    if (part.kind == FimTemplate::Part::Kind::kSuffix) more = {TokenId{'S'}};
    ids.insert(ids.end(), more.begin(), more.end());
  }
  return *tokenizer.decode(ids, false);
}

std::vector<std::string> stops(const Tokenizer& tokenizer, const FimTemplate& fim) {
  std::vector<std::string> names;
  for (const TokenId id : fim.stop_ids()) names.push_back(tokenizer.token_string(id));
  return names;
}

struct FamilyCase {
  const char* name;
  std::vector<std::string> tokens;
  std::string bos;
  std::string prompt;
};

class FimFamily : public testing::TestWithParam<FamilyCase> {};

TEST_P(FimFamily, order_and_stops) {
  const FamilyCase& family = GetParam();
  const auto tokenizer = tokenizer_with(family.tokens, family.bos);
  const auto fim = FimTemplate::detect(*tokenizer);
  ASSERT_TRUE(fim);
  EXPECT_EQ(prompt(*tokenizer, *fim), family.prompt);
  EXPECT_EQ(fim->num_bos(), family.bos.empty() ? 0u : 1u);
  auto expected = family.tokens;
  std::erase(expected, family.bos);
  EXPECT_THAT(stops(*tokenizer, *fim), testing::UnorderedElementsAreArray(expected));
}

INSTANTIATE_TEST_SUITE_P(
    All, FimFamily,
    testing::Values(
        FamilyCase{"qwen",
                   {"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|fim_prefix|>", "<|fim_middle|>",
                    "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"},
                   "",
                   "<|fim_prefix|>P<|fim_suffix|>S<|fim_middle|>"},
        FamilyCase{"codegemma",
                   {"<bos>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|file_separator|>"},
                   "<bos>",
                   "<bos><|fim_prefix|>P<|fim_suffix|>S<|fim_middle|>"},
        FamilyCase{"starcoder2",
                   {"<|endoftext|>", "<fim_prefix>", "<fim_middle>", "<fim_suffix>", "<fim_pad>",
                    "<repo_name>", "<file_sep>"},
                   "",
                   "<fim_prefix>P<fim_suffix>S<fim_middle>"},
        FamilyCase{"santacoder",
                   {"<|endoftext|>", "<fim-prefix>", "<fim-middle>", "<fim-suffix>", "<fim-pad>"},
                   "",
                   "<fim-prefix>P<fim-suffix>S<fim-middle>"},
        FamilyCase{"deepseek",
                   {"<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜fim▁hole｜>", "<｜fim▁begin｜>",
                    "<｜fim▁end｜>", "<|EOT|>"},
                   "<｜begin▁of▁sentence｜>",
                   "<｜begin▁of▁sentence｜><｜fim▁begin｜>P<｜fim▁hole｜>S<｜fim▁end｜>"},
        FamilyCase{"codellama",
                   {"<s>", "</s>", "▁<PRE>", "▁<MID>", "▁<SUF>", "▁<EOT>"},
                   "<s>",
                   "<s>▁<PRE>P▁<SUF>S▁<MID>"},
        FamilyCase{"codestral", {"<s>", "</s>", "[PREFIX]", "[SUFFIX]"}, "<s>", "<s>[SUFFIX]S[PREFIX]P"},
        FamilyCase{"seed",
                   {"<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>"},
                   "",
                   "<[fim-suffix]>S<[fim-prefix]>P<[fim-middle]>"}),
    [](const auto& family) { return family.param.name; });

TEST(FimTemplate, models_without_tokens_have_none) {
  EXPECT_FALSE(FimTemplate::detect(*tokenizer_with({"<s>", "</s>"})));
  EXPECT_FALSE(FimTemplate::detect(*tokenizer_with({"<|fim_prefix|>", "<|fim_suffix|>"})));
}

TEST(FimTemplate, declared_ids_go_before_names) {
  const auto tokenizer =
      tokenizer_with({"<a>", "<b>", "<c>", "<d>", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"});
  FimTokenIds declared;
  declared.prefix = TokenId{256};
  EXPECT_EQ(prompt(*tokenizer, *FimTemplate::detect(*tokenizer, declared)),
            "<|fim_prefix|>P<|fim_suffix|>S<|fim_middle|>")
      << "half a declaration is none";
  declared.suffix = TokenId{257};
  declared.middle = TokenId{258};
  declared.separator = TokenId{259};
  const auto fim = FimTemplate::detect(*tokenizer, declared);
  EXPECT_EQ(prompt(*tokenizer, *fim), "<a>P<b>S<c>");
  EXPECT_EQ(fim->separator(), TokenId{259});
  EXPECT_THAT(stops(*tokenizer, *fim), testing::ElementsAre("<a>", "<b>", "<c>", "<d>"));
}

TEST(FimTemplate, declared_ids_of_a_known_family_keep_its_order) {
  const auto tokenizer = tokenizer_with({"[PREFIX]", "[SUFFIX]"});
  FimTokenIds declared;
  declared.prefix = TokenId{256};
  declared.suffix = TokenId{257};
  EXPECT_EQ(prompt(*tokenizer, *FimTemplate::detect(*tokenizer, declared)), "[SUFFIX]S[PREFIX]P");
}

TEST(FimTemplate, given_as_text) {
  const auto tokenizer = tokenizer_with({"<s>", "<x>", "<y>"}, "<s>");
  const auto fim = FimTemplate::parse(*tokenizer, "<x>after: {suffix}\nbefore: {prefix}<y>");
  ASSERT_TRUE(fim) << fim.error().message;
  EXPECT_EQ(prompt(*tokenizer, *fim), "<s><x>after: S\nbefore: P<y>");
  EXPECT_THAT(stops(*tokenizer, *fim), testing::ElementsAre("<x>", "<y>"));
  EXPECT_FALSE(fim->separator());
  const auto bare = FimTemplate::parse(*tokenizer, "{prefix}{suffix}");
  ASSERT_TRUE(bare);
  EXPECT_EQ(prompt(*tokenizer, *bare), "<s>PS");
  EXPECT_EQ(prompt(*tokenizer, *FimTemplate::parse(*tokenizer, "<s>{prefix}<x>{suffix}")), "<s>P<x>S")
      << "BOS is not doubled";
}

TEST(FimTemplate, wrong_text_is_refused) {
  const auto tokenizer = tokenizer_with({"<x>"});
  for (const char* source : {"", "{prefix}", "<x>{suffix}", "{prefix}{prefix}{suffix}",
                             "{prefix}{suffix}{suffix}", "{ prefix }{suffix}"}) {
    const auto fim = FimTemplate::parse(*tokenizer, source);
    ASSERT_FALSE(fim) << source;
    EXPECT_THAT(fim.error().message, HasSubstr("--fim-template must hold {"));
    EXPECT_EQ(fim.error().kind, ErrorKind::kInvalidArgument);
  }
  EXPECT_FALSE(FimTemplate::parse(*tokenizer, std::string(5000, 'x') + "{prefix}{suffix}"));
  EXPECT_FALSE(FimTemplate::parse(*tokenizer, "\xFF{prefix}{suffix}"));
}

TEST(FimTemplate, user_text_has_no_control_tokens) {
  // Files exist whose vocabulary calls them ordinary added tokens: those are found in plain text.
  const auto tokenizer = load_or_fail(
      byte_tokenizer_json({{"<fim_prefix>", false}, {"<fim_suffix>", false}, {"<fim_middle>", true}}));
  const auto fim = FimTemplate::detect(*tokenizer);
  ASSERT_TRUE(fim);
  const std::string text = "a<fim_prefix>b<fim_middle><fim_suffix>c<fim_suffix><fim_suffix>";
  for (const bool joined : {false, true}) {
    const auto ids = fim->encode_text(*tokenizer, text, joined);
    ASSERT_TRUE(ids);
    EXPECT_EQ(ids->size(), text.size());
    EXPECT_EQ(*tokenizer->decode(*ids, false), text);
  }
  EXPECT_FALSE(fim->encode_text(*tokenizer, "\xFF", true));
  std::string many;
  for (int i = 0; i < 20000; ++i) many += "<fim_prefix>";
  EXPECT_EQ(fim->encode_text(*tokenizer, many, true)->size(), many.size());
}

TEST(FimTemplate, only_the_first_text_gets_the_space_of_sentencepiece) {
  for (const char* metaspace : {"", "always", "first"}) {
    const auto tokenizer = load_or_fail(piece_tokenizer_json(metaspace));
    const auto fim = FimTemplate::parse(*tokenizer, "{prefix}{suffix}");
    ASSERT_TRUE(fim);
    const auto bytes = [&](const std::string& text, bool joined) {
      const auto ids = fim->encode_text(*tokenizer, text, joined);
      EXPECT_TRUE(ids);
      std::string out;
      for (const TokenId id : ids.value()) out += tokenizer->token_bytes(id);
      return out;
    };
    EXPECT_EQ(bytes("hi", false), " hi") << metaspace;
    for (const char* text : {"hi", " hi", "  x", "x", "", "\nhi", "é"})
      EXPECT_EQ(bytes(text, true), text) << metaspace;
  }
}

TEST(FimTemplate, real_vocabularies) {
  const auto qwen = golden_tokenizer("qwen25coder");
  if (!qwen) GTEST_SKIP() << "no golden data";
  const auto fim = FimTemplate::detect(*qwen);
  ASSERT_TRUE(fim);
  EXPECT_EQ(fim->source(), "<|fim_prefix|>{prefix}<|fim_suffix|>{suffix}<|fim_middle|>");
  EXPECT_EQ(fim->repo(), TokenId{151663});
  EXPECT_EQ(fim->separator(), TokenId{151664});
  EXPECT_FALSE(FimTemplate::detect(*golden_tokenizer("gemma3")));
}

}  // namespace
}  // namespace pagoda::text
