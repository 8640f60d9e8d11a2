// How many prompt tokens may share a step with sequences that decode, so that the step takes about as long as
// wanted.
#pragma once

#include <array>
#include <cstdint>

#include "tensor/kv_storage.h"

namespace pagoda::engine {

// The least number of prompt tokens a step gets: one KV block, so that prompts always get on.
inline constexpr int64_t kMinPromptTokens = kKvBlockTokens;

// Learns the time of a decode-only step, by the number of sequences, and the time that a prompt token adds to
// it. Whatever the first estimate is worth, the budget settles where steps take the target: each step that
// took longer raises the price of a token, each shorter one lowers it. A pure function of what it was told;
// not thread-safe.
class StepBudget {
 public:
  // `target_s` 0: no target, every step gets `max_tokens`.
  StepBudget(double target_s, int64_t max_tokens);

  // Prompt tokens of the next step: kMinPromptTokens .. max_tokens, or max_tokens where that is less. All of
  // max_tokens while nothing decodes: then nobody waits for the step but prompts.
  int64_t prompt_tokens(int64_t num_decodes) const;

  // A step of `tokens` tokens, one of each of `num_decodes` decoding sequences and the others of prompts,
  // took `seconds`.
  void observe(int64_t tokens, int64_t num_decodes, double seconds);

 private:
  double decode_s(int64_t num_decodes) const;

  double target_s_;
  int64_t max_tokens_;
  // By the power of two of the number of sequences; 0: never seen.
  std::array<double, 16> decode_s_{};
  double prompt_token_s_ = 0;  // 0: never seen
};

}  // namespace pagoda::engine
