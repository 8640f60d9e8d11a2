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

Result<text::GrammarMatcher> compile(const text::GrammarCompiler& compiler, const OutputGrammar& grammar) {
  switch (grammar.kind) {
    case OutputGrammar::Kind::kJsonObject:
      return compiler.compile(text::GrammarKind::kJsonSchema, R"({"type":"object"})");
    case OutputGrammar::Kind::kJsonSchema:
      return compiler.compile(text::GrammarKind::kJsonSchema, grammar.text);
    case OutputGrammar::Kind::kRegex:
      return compiler.compile(text::GrammarKind::kRegex, grammar.text);
    case OutputGrammar::Kind::kChoice:
      return compiler.compile(text::GrammarKind::kChoice, grammar.text);
    case OutputGrammar::Kind::kLark:
      return compiler.compile(text::GrammarKind::kLark, grammar.text);
    case OutputGrammar::Kind::kGbnf:
      break;
  }
  return compiler.compile(text::GrammarKind::kGbnf, grammar.text);
}

}  // namespace

Result<std::vector<std::shared_ptr<sampling::TokenConstraint>>> GrammarSource::constraints(
    const OutputGrammar& grammar, int n) const {
  const auto compiler = PAGODA_TRY(this->compiler());
  auto compiled = compile(*compiler, grammar);
  if (!compiled) {
    Error error = std::move(compiled).error();
    error.param = grammar.param;
    if (error.kind == ErrorKind::kInvalidArgument) {
      error.message = fmt::format("{} cannot be used: {}.", grammar.param, error.message);
    }
    return error;
  }
  std::vector<std::shared_ptr<sampling::TokenConstraint>> constraints;
  for (int choice = 1; choice < n; ++choice) {
    constraints.push_back(std::make_shared<GrammarConstraint>(PAGODA_TRY(compiled->fork())));
  }
  constraints.push_back(std::make_shared<GrammarConstraint>(std::move(*compiled)));
  return constraints;
}

Result<std::shared_ptr<const text::GrammarCompiler>> GrammarSource::compiler() const {
  const std::lock_guard lock(mutex_);
  if (!compiler_) {
    compiler_ = PAGODA_TRY(text::GrammarCompiler::create(tokenizer_, logits_width_, end_tokens_));
  }
  return compiler_;
}

}  // namespace pagoda::service
