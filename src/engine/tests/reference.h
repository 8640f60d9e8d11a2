// What a request must produce, computed from plain token lists: no blocks, no batches, no steps.
#pragma once

#include <vector>

#include "engine/engine.h"
#include "engine/tests/fake_model.h"

namespace pagoda::engine {

struct ReferenceOutput {
  std::vector<sampling::SampledToken> tokens;
  FinishReason finish = FinishReason::kNone;
};

inline ReferenceOutput reference_output(const EngineRequest& request, int choice, int64_t vocab_size,
                                        int64_t max_model_len, FakeText text = FakeText::kRandom) {
  sampling::Sampler sampler(vocab_size);
  HistoryHash hash(text);
  std::vector<TokenId> output;
  std::vector<float> row(static_cast<size_t>(vocab_size));
  ReferenceOutput expected{.tokens = {}, .finish = FinishReason::kLength};
  const auto& constraints = request.constraints;  // advance here as they do in an engine
  sampling::TokenConstraint* constraint =
      constraints.empty() ? nullptr : constraints[static_cast<size_t>(choice)].get();
  std::vector<uint32_t> mask(constraint == nullptr ? 0 : sampling::mask_words(row.size()));
  int64_t position = 0;
  for (const TokenId token : request.prompt) hash.absorb(token.value, position++);
  const auto limit = std::min(request.max_tokens, max_model_len - position);
  while (static_cast<int64_t>(output.size()) < limit) {
    hash.logits(row);
    if (constraint != nullptr) PAGODA_CHECK(constraint->fill_mask(mask).has_value());
    expected.tokens.push_back(sampler.sample(row, request.sampling,
                                             {.prompt = request.prompt, .output = output},
                                             static_cast<uint32_t>(choice), mask));
    const TokenId token = expected.tokens.back().token;
    const bool complete = constraint != nullptr && constraint->accept(token).value();
    const auto& stop_ids = request.sampling.stop_token_ids;
    const bool may_stop = static_cast<int64_t>(output.size()) >= request.sampling.min_tokens;
    if (may_stop && std::ranges::find(stop_ids, token) != stop_ids.end()) {
      expected.finish = FinishReason::kStop;
      break;
    }
    if (complete) {
      expected.finish = FinishReason::kStop;
      break;
    }
    output.push_back(token);
    hash.absorb(token.value, position++);
  }
  return expected;
}

inline std::vector<sampling::SampledToken> reference_prompt_scores(const EngineRequest& request,
                                                                   int64_t vocab_size,
                                                                   FakeText text = FakeText::kRandom) {
  HistoryHash hash(text);
  std::vector<float> row(static_cast<size_t>(vocab_size));
  std::vector<sampling::SampledToken> scores(1);
  for (size_t i = 0; i + 1 < request.prompt.size(); ++i) {
    hash.absorb(request.prompt[i].value, static_cast<int64_t>(i));
    hash.logits(row);
    scores.push_back(sampling::score_token(row, request.prompt[i + 1], request.prompt_logprobs));
  }
  return scores;
}

// Bit for bit: nothing that the engine does may change a logit.
inline bool equal_tokens(const sampling::SampledToken& a, const sampling::SampledToken& b) {
  const auto equal_top = [](const sampling::TokenLogprob& x, const sampling::TokenLogprob& y) {
    return x.token == y.token && x.logprob == y.logprob;
  };
  return a.token == b.token && a.logprob == b.logprob && a.rank == b.rank &&
         std::ranges::equal(a.top, b.top, equal_top);
}

}  // namespace pagoda::engine
