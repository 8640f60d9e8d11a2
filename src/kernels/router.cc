#include "kernels/router.h"

#include <array>
#include <cmath>

#include "base/check.h"

namespace pagoda::kernels {

void choose_experts(std::span<const float> logits, bool renormalise, const ExpertChoice& out) noexcept {
  const size_t count = out.ids.size();
  PAGODA_CHECK(
      count >= 1 && count <= logits.size() && logits.size() <= kMaxExperts && out.weights.size() == count,
      "{} of {} experts", count, logits.size());
  std::array<bool, kMaxExperts> taken = {};
  for (size_t slot = 0; slot < count; ++slot) {
    size_t best = logits.size();
    for (size_t expert = 0; expert < logits.size(); ++expert) {
      if (taken[expert]) continue;
      if (best == logits.size() || logits[expert] > logits[best]) best = expert;
    }
    taken[best] = true;
    out.ids[slot] = static_cast<int32_t>(best);
  }
  // The first choice has the largest logit.
  const float max = logits[static_cast<size_t>(out.ids[0])];
  float sum = 0;
  if (renormalise) {
    for (const int32_t id : out.ids) sum += std::exp(logits[static_cast<size_t>(id)] - max);
  } else {
    for (const float logit : logits) sum += std::exp(logit - max);
  }
  for (size_t slot = 0; slot < count; ++slot) {
    out.weights[slot] = std::exp(logits[static_cast<size_t>(out.ids[slot])] - max) / sum;
  }
}

}  // namespace pagoda::kernels
