// Grammars of constrained output, through rust/ (llguidance): which tokens may come next.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/ids.h"
#include "base/result.h"
#include "text/rust_memory.h"
#include "text/tokenizer.h"

namespace pagoda::text {

enum class GrammarKind : uint8_t {
  kJsonSchema,  // whitespace between two parts is at most 20 characters long; $ref only into the schema
                // itself
  kRegex,       // Rust's syntax without look-around; it matches the whole output
  kChoice,      // a JSON array of strings: one of them
  // llguidance's Lark. `start` is the first rule; lower-case names are rules, upper-case ones terminals.
  // `%json {...}` is a JSON schema as a rule's item; its whitespace is bounded only with kJsonWhitespace in
  // it. Control tokens, and added ones of the form <...>, are named without quotes: <tool_call>, <|im_end|>,
  // or by id: <[151657]>. In quotes they are the text, which no control token matches.
  kLark,
  kGbnf,  // see gbnf.h
};

// A member of the schema after %json, so that the model cannot write whitespace without end.
inline constexpr std::string_view kJsonWhitespace =
    R"("x-guidance":{"whitespace_pattern":"[\\x20\\x0A\\x0D\\x09]{1,20}"})";

// One output's position in a grammar. Not thread-safe; of no use after an error.
class GrammarMatcher {
 public:
  explicit GrammarMatcher(internal::MatcherHandle handle) : handle_(std::move(handle)) {}

  // Bit i of word i / 32 says whether id i may come next; end tokens may where the grammar accepts.
  Result<void> fill_mask(std::span<uint32_t> words);
  // Takes a token of the mask. True when nothing can follow.
  Result<bool> accept(TokenId token);
  // A copy that shares nothing with this one.
  Result<GrammarMatcher> fork() const;

 private:
  internal::MatcherHandle handle_;
};

// What all grammars of a model share; making one takes 0.1 to 1 s. Immutable, for all threads.
class GrammarCompiler {
 public:
  // `logits_width`: ids that masks speak of. kUnimplemented when the tokenizer's bytes are not known.
  static Result<std::shared_ptr<const GrammarCompiler>> create(const Tokenizer& tokenizer,
                                                               int64_t logits_width,
                                                               std::span<const TokenId> end_tokens);

  // kInvalidArgument for a text that is wrong, too large, too deep, matches nothing or takes longer than 1 s.
  Result<GrammarMatcher> compile(GrammarKind kind, std::string_view text) const;

  explicit GrammarCompiler(internal::GrammarFactoryHandle handle) : handle_(std::move(handle)) {}

 private:
  internal::GrammarFactoryHandle handle_;
};

}  // namespace pagoda::text
