// From one row of logits to one token, in the order of vLLM's V1 sampler (API.md, "Order of the sampler"):
// grammar mask, allowed ids, bad words, min_tokens, logit_bias, penalties (repetition, frequency, presence),
// temperature, min_p, top_k, top_p.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.h"
#include "sampling/sampling_params.h"

namespace pagoda::sampling {

struct SampledToken {
  TokenId token;
  float logprob = 0.0f;           // under the raw logits; filled when num_logprobs != -1
  int64_t rank = 0;               // 1 = most likely under the raw logits; filled likewise
  std::vector<TokenLogprob> top;  // num_logprobs best under the raw logits, descending, ties by lower id
};

// What the sequence has seen.
struct TokenHistory {
  std::span<const TokenId> prompt;
  std::span<const TokenId> output;
};

// Scratch of one sampling thread; grows to the vocabulary once. Not thread-safe: one per worker. Movable.
class Sampler {
 public:
  explicit Sampler(int64_t vocab_size);
  ~Sampler();
  Sampler(Sampler&&) noexcept;
  Sampler& operator=(Sampler&&) noexcept;

  // `logits` [vocab_size] is overwritten. `mask`: a TokenConstraint's, or empty for none; it holds whatever
  // the parameters say. The draw is a pure function of (params.seed, choice, history.output.size()). NaN
  // logits count as -inf; if nothing finite is left the lowest allowed id is taken, so it always returns a
  // token.
  SampledToken sample(std::span<float> logits, const SamplingParams& params, const TokenHistory& history,
                      uint32_t choice, std::span<const uint32_t> mask = {});

  // The distribution that sample() draws from, in place: for tests and best_of. Greedy gives a single 1.
  void distribution(std::span<float> logits, const SamplingParams& params, const TokenHistory& history);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Raw log-probabilities of one row: the given token and the top `k` (for prompt_logprobs and echo);
// kAllLogprobs for the whole row. NaN counts as -inf. `token` lies in the row.
SampledToken score_token(std::span<const float> logits, TokenId token, int k);

}  // namespace pagoda::sampling
