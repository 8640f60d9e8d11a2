#include "engine/sequence.h"

#include <tuple>

namespace pagoda::engine {

Sequence* Request::find(int choice) {
  for (const auto& sequence : sequences) {
    if (sequence->choice == choice) return sequence.get();
  }
  return nullptr;
}

bool runs_before(const Sequence& a, const Sequence& b, EngineOptions::Policy policy) {
  const auto rank = [policy](const Sequence& s) {
    const int priority = policy == EngineOptions::Policy::kPriority ? s.request->spec.priority : 0;
    return std::tuple(s.background(), priority, s.request->arrival, s.choice);
  };
  return rank(a) < rank(b);
}

}  // namespace pagoda::engine
