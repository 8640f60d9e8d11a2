// Makes the constraints of requests that ask for structured output.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "sampling/token_constraint.h"
#include "service/grammar_cache.h"
#include "service/service.h"
#include "text/grammar.h"
#include "text/tokenizer.h"

namespace pagoda::service {

// What grammars of the model share is made on first use. Any thread.
class GrammarSource {
 public:
  // `tokenizer` must outlive this object.
  GrammarSource(const text::Tokenizer& tokenizer, const ServiceOptions& options);

  // One constraint for each of `n` choices. kInvalidArgument naming the grammar's own field.
  Result<std::vector<std::shared_ptr<sampling::TokenConstraint>>> constraints(const OutputGrammar& grammar,
                                                                              int n);

 private:
  Result<std::shared_ptr<const text::GrammarCompiler>> compiler();

  const text::Tokenizer& tokenizer_;
  const int64_t logits_width_;
  const std::vector<TokenId> end_tokens_;
  GrammarCache cache_;
  std::mutex mutex_;
  std::shared_ptr<const text::GrammarCompiler> compiler_;
};

}  // namespace pagoda::service
