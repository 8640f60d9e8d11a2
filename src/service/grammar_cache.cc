#include "service/grammar_cache.h"

#include <algorithm>
#include <utility>

namespace pagoda::service {

Result<std::vector<text::GrammarMatcher>> GrammarCache::matchers(text::GrammarKind kind,
                                                                 std::string_view text, int count,
                                                                 const Compile& compile) {
  std::unique_lock lock(mutex_);
  auto found = find(kind, text);
  if (found == entries_.end()) {
    lock.unlock();
    text::GrammarMatcher start = PAGODA_TRY(compile());
    lock.lock();
    found = find(kind, text);  // another thread may have been faster
    if (found == entries_.end()) {
      found = entries_.insert(entries_.begin(), {kind, std::string(text), std::move(start)});
      text_bytes_ += text.size();
    }
  }
  entries_.splice(entries_.begin(), entries_, found);
  std::vector<text::GrammarMatcher> copies;
  for (int copy = 0; copy < count; ++copy) copies.push_back(PAGODA_TRY(found->start.fork()));
  shrink();
  return copies;
}

GrammarCache::Entries::iterator GrammarCache::find(text::GrammarKind kind, std::string_view text) {
  return std::find_if(entries_.begin(), entries_.end(),
                      [&](const Entry& entry) { return entry.kind == kind && entry.text == text; });
}

void GrammarCache::shrink() {
  while (entries_.size() > max_grammars_ || text_bytes_ > max_text_bytes_) {
    text_bytes_ -= entries_.back().text.size();
    entries_.pop_back();
  }
}

}  // namespace pagoda::service
