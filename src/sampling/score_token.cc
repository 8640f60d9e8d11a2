#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.h"
#include "kernels/logits.h"
#include "sampling/logits_processors.h"
#include "sampling/sampler.h"

namespace pagoda::sampling {
namespace {

constexpr float kNegInf = -std::numeric_limits<float>::infinity();

// A row without any finite logit gives -inf to all of its tokens instead of NaN.
float logprob(float logit, double log_sum) {
  return logit == kNegInf ? kNegInf : static_cast<float>(static_cast<double>(logit) - log_sum);
}

SampledToken score_finite(std::span<const float> logits, TokenId token, size_t k, double log_sum) {
  SampledToken scored;
  scored.token = token;
  const float logit = logits[static_cast<size_t>(token.value)];
  scored.logprob = logprob(logit, log_sum);
  scored.rank = kernels::count_greater(logits, logit) + 1;
  if (k == 0) return scored;
  std::vector<int32_t> ids(k);
  std::vector<float> values(k);
  const int64_t found = kernels::top_k(logits, static_cast<int64_t>(k), ids, values);
  scored.top.reserve(static_cast<size_t>(found));
  for (size_t i = 0; i < static_cast<size_t>(found); ++i) {
    scored.top.push_back({TokenId{ids[i]}, logprob(values[i], log_sum)});
  }
  return scored;
}

}  // namespace

SampledToken score_token(std::span<const float> logits, TokenId token, int k) {
  PAGODA_CHECK(token.value >= 0 && static_cast<size_t>(token.value) < logits.size(),
               "token {} is outside the {} logits", token.value, logits.size());
  const size_t wanted =
      k == kAllLogprobs ? logits.size() : std::min(static_cast<size_t>(std::max(k, 0)), logits.size());
  const bool has_nan = std::any_of(logits.begin(), logits.end(), [](float x) { return std::isnan(x); });
  const double log_sum = has_nan ? 0.0 : kernels::log_sum_exp(logits);
  if (!has_nan && log_sum < std::numeric_limits<double>::infinity()) {
    return score_finite(logits, token, wanted, log_sum);
  }
  // Broken logits are rare, so that only they pay for a copy.
  std::vector<float> cleaned(logits.begin(), logits.end());
  sanitize(cleaned);
  return score_finite(cleaned, token, wanted, kernels::log_sum_exp(cleaned));
}

}  // namespace pagoda::sampling
