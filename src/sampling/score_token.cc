#include <algorithm>
#include <limits>

#include "base/check.h"
#include "sampling/logits_processors.h"
#include "sampling/sampler.h"
#include "sampling/token_scorer.h"

namespace pagoda::sampling {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// A row without any finite logit gives -inf to all of its tokens instead of NaN.
float logprob(float logit, double log_sum) {
  return logit == -kInf ? -kInf : static_cast<float>(static_cast<double>(logit) - log_sum);
}

}  // namespace

SampledToken TokenScorer::score_finite(const kernels::ScannedRow& scanned, TokenId token, size_t k) {
  const double log_sum = kernels::log_sum_exp(scanned);
  SampledToken scored;
  scored.token = token;
  const float logit = scanned.row[static_cast<size_t>(token.value)];
  scored.logprob = logprob(logit, log_sum);
  scored.rank = kernels::count_greater(scanned, logit) + 1;
  if (k == 0) return scored;
  ids_.resize(std::max(ids_.size(), k));
  values_.resize(std::max(values_.size(), k));
  const auto found = static_cast<size_t>(kernels::top_k(scanned, static_cast<int64_t>(k), ids_, values_));
  scored.top.reserve(found);
  for (size_t i = 0; i < found; ++i) scored.top.push_back({TokenId{ids_[i]}, logprob(values_[i], log_sum)});
  return scored;
}

SampledToken TokenScorer::score(std::span<const float> logits, TokenId token, int k) {
  PAGODA_CHECK(token.value >= 0 && static_cast<size_t>(token.value) < logits.size(),
               "token {} is outside the {} logits", token.value, logits.size());
  const size_t wanted =
      k == kAllLogprobs ? logits.size() : std::min(static_cast<size_t>(std::max(k, 0)), logits.size());
  maxima_.resize(kernels::num_logits_blocks(logits.size()));
  const kernels::ScannedRow scanned = kernels::scan(logits, maxima_);
  if (!scanned.has_nan && scanned.max < kInf) return score_finite(scanned, token, wanted);
  // Broken logits are rare, so that only they pay for a copy.
  cleaned_.assign(logits.begin(), logits.end());
  sanitize(cleaned_);
  return score_finite(kernels::scan(cleaned_, maxima_), token, wanted);
}

SampledToken score_token(std::span<const float> logits, TokenId token, int k) {
  return TokenScorer().score(logits, token, k);
}

}  // namespace pagoda::sampling
