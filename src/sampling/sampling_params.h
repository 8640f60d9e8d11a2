// What a request asks of the sampler. Already validated: values lie in the ranges of API.md, ids in the
// vocabulary.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace pagoda::sampling {

struct SamplingParams {
  float temperature = 1.0f;  // below 1e-5: greedy
  float top_p = 1.0f;        // (0, 1]
  int64_t top_k = 0;         // 0 = off
  float min_p = 0.0f;        // [0, 1]
  float repetition_penalty = 1.0f;
  float frequency_penalty = 0.0f;
  float presence_penalty = 0.0f;
  uint64_t seed = 0;  // the service draws one when the request gives none
  std::vector<std::pair<TokenId, float>> logit_bias;
  std::vector<TokenId> allowed_token_ids;       // empty = all
  std::vector<std::vector<TokenId>> bad_words;  // sequences whose last token may not follow the others
  int64_t min_tokens = 0;                       // stop_token_ids are masked before that many output tokens
  std::vector<TokenId> stop_token_ids;          // end tokens included, unless ignore_eos
  int num_logprobs = -1;  // -1 = none wanted; k = the sampled token and the top k; kAllLogprobs
};

inline constexpr int kAllLogprobs = -2;  // one entry per vocabulary token

// A candidate with its natural-log probability under the raw logits. -inf is possible (fully masked logits).
struct TokenLogprob {
  TokenId token;
  float logprob = 0.0f;
};

}  // namespace pagoda::sampling
