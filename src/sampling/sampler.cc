#include "sampling/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

#include "base/check.h"
#include "base/rng.h"
#include "kernels/logits.h"
#include "sampling/candidates.h"
#include "sampling/logits_processors.h"
#include "sampling/token_scorer.h"

namespace pagoda::sampling {
namespace {

constexpr float kNegInf = -std::numeric_limits<float>::infinity();

// vLLM's bound: below it a division by the temperature says nothing that the largest logit does not.
constexpr float kGreedyTemperature = 1e-5f;

// The lowest id of the mask, which outranks the parameters.
int32_t lowest_of(std::span<const uint32_t> mask) {
  for (size_t word = 0; word < mask.size(); ++word) {
    if (mask[word] != 0) return static_cast<int32_t>(word * 32) + std::countr_zero(mask[word]);
  }
  return 0;
}

// The lowest allowed id: what is left to say when no logit is finite.
int32_t fallback_token(const SamplingParams& params, std::span<const uint32_t> mask, size_t vocab_size) {
  if (!mask.empty()) return lowest_of(mask);
  int32_t lowest = std::numeric_limits<int32_t>::max();
  for (const TokenId id : params.allowed_token_ids) {
    if (id.value >= 0 && static_cast<size_t>(id.value) < vocab_size) lowest = std::min(lowest, id.value);
  }
  return lowest == std::numeric_limits<int32_t>::max() ? 0 : lowest;
}

}  // namespace

class Sampler::Impl {
 public:
  explicit Impl(int64_t vocab_size) : vocab_size_(vocab_size) {
    PAGODA_CHECK(vocab_size > 0, "vocab_size is {}", vocab_size);
  }

  SampledToken sample(std::span<float> logits, const SamplingParams& params, const TokenHistory& history,
                      uint32_t choice, std::span<const uint32_t> mask) {
    const bool wants_logprobs = params.num_logprobs != -1;
    // Otherwise at most values that are no numbers change, and these count alike in both places.
    const bool keeps_raw = wants_logprobs && (changes_logits(params) || !mask.empty());
    if (keeps_raw) raw_.assign(logits.begin(), logits.end());
    std::optional<int32_t> id = prepare(logits, params, history, mask);
    if (!id) id = candidates_.pick(uniform01(params.seed, choice, history.output.size()));
    if (wants_logprobs) {
      return score_.score(keeps_raw ? std::span<const float>(raw_) : logits, TokenId{*id},
                          params.num_logprobs);
    }
    SampledToken sampled;
    sampled.token = TokenId{*id};
    return sampled;
  }

  void distribution(std::span<float> logits, const SamplingParams& params, const TokenHistory& history) {
    const std::optional<int32_t> certain = prepare(logits, params, history, {});
    if (!certain) return candidates_.write_distribution(logits);
    std::fill(logits.begin(), logits.end(), 0.0f);
    logits[static_cast<size_t>(*certain)] = 1.0f;
  }

 private:
  // Runs all steps. Returns the token where the parameters or the logits leave no choice, else fills
  // candidates_.
  std::optional<int32_t> prepare(std::span<float> logits, const SamplingParams& params,
                                 const TokenHistory& history, std::span<const uint32_t> mask) {
    PAGODA_CHECK(static_cast<int64_t>(logits.size()) == vocab_size_, "{} logits for a vocabulary of {}",
                 logits.size(), vocab_size_);
    apply_mask(logits, mask);
    process_logits(logits, params, history, scratch_);
    if (params.temperature < kGreedyTemperature) {
      const int64_t best = kernels::argmax(logits);
      const bool none = best < 0 || logits[static_cast<size_t>(best)] == kNegInf;
      return none ? fallback_token(params, mask, logits.size()) : static_cast<int32_t>(best);
    }
    const kernels::ScannedRow scanned = scan_finite(logits);
    if (scanned.max == kNegInf) return fallback_token(params, mask, logits.size());
    candidates_.collect(scanned, params.temperature, threshold(scanned, params));
    candidates_.keep_nucleus(params.top_p);
    return std::nullopt;
  }

  kernels::ScannedRow scan_finite(std::span<float> logits) {
    maxima_.resize(kernels::num_logits_blocks(logits.size()));
    const kernels::ScannedRow scanned = kernels::scan(logits, maxima_);
    if (!scanned.has_nan && scanned.max < std::numeric_limits<float>::infinity()) return scanned;
    sanitize(logits);
    return kernels::scan(logits, maxima_);
  }

  // min_p and top_k keep what lies above a logit, ties included, so that both are one comparison. The logits
  // are compared before the division by the temperature, which could round two of them together.
  double threshold(const kernels::ScannedRow& scanned, const SamplingParams& params) {
    double lowest = -std::numeric_limits<double>::infinity();
    if (params.min_p > 0.0f) {
      const double exponent = std::log(static_cast<double>(params.min_p)) - kProbabilitySlack;
      lowest = static_cast<double>(scanned.max) + static_cast<double>(params.temperature) * exponent;
    }
    if (params.top_k <= 0 || params.top_k >= vocab_size_) return lowest;
    if (params.top_k == 1) return std::max(lowest, static_cast<double>(scanned.max));
    const auto k = static_cast<size_t>(params.top_k);
    top_ids_.resize(k);
    top_values_.resize(k);
    const int64_t found = kernels::top_k(scanned, params.top_k, top_ids_, top_values_);
    if (found < params.top_k) return lowest;
    return std::max(lowest, static_cast<double>(top_values_[k - 1]));
  }

  int64_t vocab_size_;
  ProcessorScratch scratch_;
  Candidates candidates_;
  TokenScorer score_;
  std::vector<float> raw_;
  std::vector<float> maxima_;
  std::vector<int32_t> top_ids_;
  std::vector<float> top_values_;
};

Sampler::Sampler(int64_t vocab_size) : impl_(std::make_unique<Impl>(vocab_size)) {}
Sampler::~Sampler() = default;
Sampler::Sampler(Sampler&&) noexcept = default;
Sampler& Sampler::operator=(Sampler&&) noexcept = default;

SampledToken Sampler::sample(std::span<float> logits, const SamplingParams& params,
                             const TokenHistory& history, uint32_t choice, std::span<const uint32_t> mask) {
  return impl_->sample(logits, params, history, choice, mask);
}

void Sampler::distribution(std::span<float> logits, const SamplingParams& params,
                           const TokenHistory& history) {
  impl_->distribution(logits, params, history);
}

}  // namespace pagoda::sampling
