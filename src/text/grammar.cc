#include "text/grammar.h"

#include <string>
#include <utility>
#include <vector>

#include "text/gbnf.h"
#include "text/rust_tokenizer.h"

namespace pagoda::text {
namespace {

pt_grammar_kind rust_kind(GrammarKind kind) {
  switch (kind) {
    case GrammarKind::kJsonSchema:
      return PT_JSON_SCHEMA;
    case GrammarKind::kRegex:
      return PT_REGEX;
    case GrammarKind::kChoice:
      return PT_CHOICE;
    case GrammarKind::kLark:
    case GrammarKind::kGbnf:  // written as Lark
      break;
  }
  return PT_LARK;
}

}  // namespace

Result<void> GrammarMatcher::fill_mask(std::span<uint32_t> words) {
  const pt_status status = pt_matcher_mask(handle_.get(), words.data(), words.size());
  if (status != PT_OK) return internal::rust_error(status, ErrorKind::kInvalidArgument);
  return {};
}

Result<bool> GrammarMatcher::accept(TokenId token) {
  int complete = 0;
  const pt_status status = pt_matcher_consume(handle_.get(), static_cast<uint32_t>(token.value), &complete);
  if (status != PT_OK) return internal::rust_error(status, ErrorKind::kInvalidArgument);
  return complete != 0;
}

Result<GrammarMatcher> GrammarMatcher::fork() const {
  pt_matcher* copy = nullptr;
  const pt_status status = pt_matcher_fork(handle_.get(), &copy);
  if (status != PT_OK) return internal::rust_error(status, ErrorKind::kInternal);
  return GrammarMatcher(internal::MatcherHandle(copy));
}

Result<std::shared_ptr<const GrammarCompiler>> GrammarCompiler::create(const Tokenizer& tokenizer,
                                                                       int64_t logits_width,
                                                                       std::span<const TokenId> end_tokens) {
  const auto* rust = dynamic_cast<const internal::RustTokenizer*>(&tokenizer);
  if (rust == nullptr) {
    return make_error(ErrorKind::kUnimplemented, "This model's tokenizer cannot constrain outputs.");
  }
  std::vector<uint32_t> ids;
  for (const TokenId id : end_tokens) ids.push_back(static_cast<uint32_t>(id.value));
  pt_grammar_factory* factory = nullptr;
  const pt_status status = pt_grammar_factory_new(rust->handle(), static_cast<size_t>(logits_width),
                                                  ids.data(), ids.size(), &factory);
  if (status != PT_OK) return internal::rust_error(status, ErrorKind::kUnimplemented);
  return std::make_shared<const GrammarCompiler>(internal::GrammarFactoryHandle(factory));
}

Result<GrammarMatcher> GrammarCompiler::compile(GrammarKind kind, std::string_view text) const {
  std::string lark;
  if (kind == GrammarKind::kGbnf) {
    lark = PAGODA_TRY(gbnf_to_lark(text));
    text = lark;
  }
  pt_matcher* matcher = nullptr;
  const pt_status status = pt_matcher_new(handle_.get(), rust_kind(kind), text.data(), text.size(), &matcher);
  if (status != PT_OK) {
    Error error = internal::rust_error(status, ErrorKind::kInvalidArgument);
    // "at line(column): " of a text that the caller has not seen.
    const size_t place = error.message.find("): ");
    if (kind != GrammarKind::kLark && error.message.starts_with("at ") && place != std::string::npos) {
      error.message.erase(0, place + 3);
    }
    return error;
  }
  return GrammarMatcher(internal::MatcherHandle(matcher));
}

}  // namespace pagoda::text
