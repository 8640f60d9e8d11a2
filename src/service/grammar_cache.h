// Grammars compiled before, as clients send the same schema with every request.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/grammar.h"

namespace pagoda::service {

// The least recently used go first. Any thread.
class GrammarCache {
 public:
  // `max_text_bytes`: of all grammars kept; what a compiled one takes grows with its text.
  GrammarCache(size_t max_grammars, size_t max_text_bytes)
      : max_grammars_(max_grammars), max_text_bytes_(max_text_bytes) {}

  using Compile = std::function<Result<text::GrammarMatcher>()>;
  // `count` matchers at the beginning of the grammar, which is compiled when it isn't known. Compiling
  // happens without the lock, so that one client's grammar holds up no other; failures are not kept.
  Result<std::vector<text::GrammarMatcher>> matchers(text::GrammarKind kind, std::string_view text, int count,
                                                     const Compile& compile);

 private:
  struct Entry {
    text::GrammarKind kind;
    std::string text;
    text::GrammarMatcher start;  // never advanced
  };
  using Entries = std::list<Entry>;  // the most recently used first

  Entries::iterator find(text::GrammarKind kind, std::string_view text);
  void shrink();

  const size_t max_grammars_, max_text_bytes_;
  std::mutex mutex_;
  Entries entries_;
  size_t text_bytes_ = 0;
};

}  // namespace pagoda::service
