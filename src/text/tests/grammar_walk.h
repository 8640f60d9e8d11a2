// Grammars over a tokenizer of single bytes, and what they let pass.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "text/grammar.h"
#include "text/tests/tiny_tokenizers.h"

namespace pagoda::text {

inline constexpr int32_t kEnd = 256, kCall = 257;
inline constexpr int64_t kWidth = 320;  // wider than the vocabulary

inline std::shared_ptr<const GrammarCompiler> compiler() {
  static const auto tokenizer =
      load_tokenizer(byte_tokenizer_json({{"<|end|>"}, {"<tool_call>", /*special=*/false}})).value();
  const std::vector<TokenId> ends = {TokenId{kEnd}};
  static const auto made = GrammarCompiler::create(*tokenizer, kWidth, ends).value();
  return made;
}

inline std::string error_of(GrammarKind kind, const std::string& text) {
  const auto matcher = compiler()->compile(kind, text);
  return matcher ? "" : matcher.error().message;
}

struct Walk {
  bool possible = true, complete = false, may_end = false;
};

// Feeds the text byte by byte, then asks whether the end may come.
inline Walk walk(GrammarMatcher& matcher, const std::string& text) {
  Walk result;
  std::vector<uint32_t> mask((kWidth + 31) / 32);
  const auto allows = [&](int32_t id) {
    EXPECT_TRUE(matcher.fill_mask(mask).has_value());
    return (mask[static_cast<size_t>(id) / 32] >> (id % 32) & 1) != 0;
  };
  for (const char c : text) {
    const int32_t id = static_cast<unsigned char>(c);
    if (result.complete || !allows(id)) return {.possible = false, .complete = false, .may_end = false};
    result.complete = matcher.accept(TokenId{id}).value();
  }
  result.may_end = result.complete || allows(kEnd);
  for (int64_t id = 258; id < kWidth; ++id)
    EXPECT_EQ(mask[static_cast<size_t>(id) / 32] >> (id % 32) & 1, 0u);
  return result;
}

inline bool accepts(GrammarKind kind, const std::string& grammar, const std::string& text) {
  auto matcher = compiler()->compile(kind, grammar);
  EXPECT_TRUE(matcher.has_value()) << matcher.error().message;
  if (!matcher) return false;
  const Walk result = walk(*matcher, text);
  return result.possible && result.may_end;
}

}  // namespace pagoda::text
