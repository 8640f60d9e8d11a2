// The steps of the sampler that change logits before any probability is computed: masks, bias, penalties.
// Each works in place on one row [vocab_size]. Ids outside the row are ignored, so that a history may hold
// tokens that the head does not score.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "sampling/sampler.h"
#include "sampling/sampling_params.h"

namespace pagoda::sampling {

// Scratch of the processors: one entry per vocabulary token, all zero between calls.
struct ProcessorScratch {
  std::vector<int32_t> counts;  // occurrences in the output
  std::vector<uint8_t> seen;    // penalised already
  std::vector<float> kept;      // values of the allowed ids while the row is masked
};

// Ids whose bit in `mask` is not set become -inf; an empty mask allows all.
void apply_mask(std::span<float> logits, std::span<const uint32_t> mask);

// Everything but `allowed` becomes -inf; an empty list allows all.
void keep_allowed(std::span<float> logits, std::span<const TokenId> allowed, std::vector<float>& scratch);

// Masks the last token of each bad word whose other tokens end the output.
void mask_bad_words(std::span<float> logits, std::span<const std::vector<TokenId>> bad_words,
                    std::span<const TokenId> output);

// Positive logits of the tokens seen in prompt or output are divided by the penalty, the others multiplied;
// once per distinct token. Source: Keskar et al. 2019 (CTRL), with the sign rule that keeps a penalty from
// helping.
void apply_repetition_penalty(std::span<float> logits, float penalty, const TokenHistory& history,
                              std::vector<uint8_t>& seen);

// logit -= frequency * count + presence, for the tokens of the output only.
void apply_output_penalties(std::span<float> logits, const SamplingParams& params,
                            std::span<const TokenId> output, std::vector<int32_t>& counts);

// All steps in the order of the sampler, up to and including the penalties.
void process_logits(std::span<float> logits, const SamplingParams& params, const TokenHistory& history,
                    ProcessorScratch& scratch);

// False when process_logits would leave every row as it is.
bool changes_logits(const SamplingParams& params) noexcept;

// NaN becomes -inf and +inf the largest float, so that later arithmetic meets neither.
void sanitize(std::span<float> logits) noexcept;

}  // namespace pagoda::sampling
