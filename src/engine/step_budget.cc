#include "engine/step_budget.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace pagoda::engine {
namespace {

// The share of a new measurement in an estimate. A dearer token counts more: to overshoot the target hurts
// every stream, to fall short of it only delays a prompt.
constexpr double kWeightCheaper = 0.25, kWeightDearer = 0.5;

// One measurement changes a price fourfold at most, so that a step in which the CPU was taken away does not
// starve prompts for long.
constexpr double kLargestFactor = 4;

// Of a mixed step at least this share is put down to its prompt tokens: the time of a decode-only step may
// be out of date, and a price of nothing would admit anything.
constexpr double kLeastPromptShare = 0.1;

size_t bucket_of(int64_t num_decodes, size_t count) {
  return std::min(static_cast<size_t>(std::bit_width(static_cast<uint64_t>(num_decodes - 1))), count - 1);
}

double blend(double estimate, double measured, double weight) {
  if (estimate == 0) return measured;
  const double bounded = std::clamp(measured, estimate / kLargestFactor, estimate * kLargestFactor);
  return estimate + weight * (bounded - estimate);
}

}  // namespace

StepBudget::StepBudget(double target_s, int64_t max_tokens) : target_s_(target_s), max_tokens_(max_tokens) {
  PAGODA_CHECK(target_s >= 0 && max_tokens > 0, "target {} s, {} tokens", target_s, max_tokens);
}

// That of the nearest smaller number of sequences where this one was never seen.
double StepBudget::decode_s(int64_t num_decodes) const {
  for (size_t bucket = bucket_of(num_decodes, decode_s_.size()) + 1; bucket-- > 0;) {
    if (decode_s_[bucket] > 0) return decode_s_[bucket];
  }
  return 0;
}

int64_t StepBudget::prompt_tokens(int64_t num_decodes) const {
  if (target_s_ == 0 || num_decodes <= 0) return max_tokens_;
  const int64_t least = std::min(kMinPromptTokens, max_tokens_);
  if (prompt_token_s_ == 0) return least;
  const double affordable = (target_s_ - decode_s(num_decodes)) / prompt_token_s_;
  if (affordable >= static_cast<double>(max_tokens_)) return max_tokens_;
  if (affordable <= static_cast<double>(least)) return least;
  // Not rounded to whole blocks: while decode-only steps are unknown the estimates near the least budget are
  // so rough that rounding down would undo every increase.
  return static_cast<int64_t>(affordable);
}

void StepBudget::observe(int64_t tokens, int64_t num_decodes, double seconds) {
  if (target_s_ == 0 || tokens <= 0 || seconds <= 0) return;
  const int64_t num_prompt = tokens - num_decodes;
  if (num_prompt <= 0) {
    double& estimate = decode_s_[bucket_of(num_decodes, decode_s_.size())];
    estimate = blend(estimate, seconds, kWeightCheaper);
    return;
  }
  const double alone = num_decodes > 0 ? decode_s(num_decodes) : 0;
  const double added = std::max(seconds - alone, kLeastPromptShare * seconds);
  const double measured = added / static_cast<double>(num_prompt);
  // The time of the last few tokens of a prompt is mostly that of everything else in the step.
  const double trust = std::min(1.0, static_cast<double>(num_prompt) / static_cast<double>(kMinPromptTokens));
  const double weight = trust * (measured > prompt_token_s_ ? kWeightDearer : kWeightCheaper);
  prompt_token_s_ = blend(prompt_token_s_, measured, weight);
}

}  // namespace pagoda::engine
