#include "service/grammar_source.h"

#include <fmt/format.h>

#include <utility>

namespace pagoda::service {
namespace {

class GrammarConstraint final : public sampling::TokenConstraint {
 public:
  explicit GrammarConstraint(text::GrammarMatcher matcher) : matcher_(std::move(matcher)) {}
  Result<void> fill_mask(std::span<uint32_t> words) override { return matcher_.fill_mask(words); }
  Result<bool> accept(TokenId token) override { return matcher_.accept(token); }

 private:
  text::GrammarMatcher matcher_;
};

constexpr size_t kMaxGrammars = 64;
constexpr size_t kMaxTextBytes = size_t{4} << 20;

text::GrammarKind kind_of(OutputGrammar::Kind kind) {
  switch (kind) {
    case OutputGrammar::Kind::kJsonObject:
    case OutputGrammar::Kind::kJsonSchema:
      return text::GrammarKind::kJsonSchema;
    case OutputGrammar::Kind::kRegex:
      return text::GrammarKind::kRegex;
    case OutputGrammar::Kind::kChoice:
      return text::GrammarKind::kChoice;
    case OutputGrammar::Kind::kLark:
      return text::GrammarKind::kLark;
    case OutputGrammar::Kind::kGbnf:
      break;
  }
  return text::GrammarKind::kGbnf;
}

std::string_view text_of(const OutputGrammar& grammar) {
  if (grammar.kind == OutputGrammar::Kind::kJsonObject) return R"({"type":"object"})";
  return grammar.text;
}

}  // namespace

GrammarSource::GrammarSource(const text::Tokenizer& tokenizer, const ServiceOptions& options)
    : tokenizer_(tokenizer),
      logits_width_(options.vocab_size),
      end_tokens_(options.eos),
      cache_(kMaxGrammars, kMaxTextBytes) {}

Result<std::vector<std::shared_ptr<sampling::TokenConstraint>>> GrammarSource::constraints(
    const OutputGrammar& grammar, int n) {
  const auto compiler = PAGODA_TRY(this->compiler());
  const text::GrammarKind kind = kind_of(grammar.kind);
  const std::string_view text = text_of(grammar);
  auto matchers = cache_.matchers(kind, text, n, [&] { return compiler->compile(kind, text); });
  if (!matchers) {
    Error error = std::move(matchers).error();
    error.param = grammar.param;
    if (error.kind == ErrorKind::kInvalidArgument) {
      error.message = fmt::format("{} cannot be used: {}.", grammar.param, error.message);
    }
    return error;
  }
  std::vector<std::shared_ptr<sampling::TokenConstraint>> constraints;
  for (text::GrammarMatcher& matcher : *matchers) {
    constraints.push_back(std::make_shared<GrammarConstraint>(std::move(matcher)));
  }
  return constraints;
}

Result<std::shared_ptr<const text::GrammarCompiler>> GrammarSource::compiler() {
  const std::lock_guard lock(mutex_);
  if (!compiler_) {
    compiler_ = PAGODA_TRY(text::GrammarCompiler::create(tokenizer_, logits_width_, end_tokens_));
  }
  return compiler_;
}

}  // namespace pagoda::service
