#include "sampling/logits_processors.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace pagoda::sampling {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

bool in_row(std::span<const float> logits, TokenId id) {
  return id.value >= 0 && static_cast<size_t>(id.value) < logits.size();
}

size_t index_of(TokenId id) {
  return static_cast<size_t>(id.value);
}

}  // namespace

void apply_mask(std::span<float> logits, std::span<const uint32_t> mask) {
  if (mask.empty()) return;
  for (size_t begin = 0; begin < logits.size(); begin += 32) {
    const uint32_t bits = begin / 32 < mask.size() ? mask[begin / 32] : 0;
    const size_t count = std::min<size_t>(32, logits.size() - begin);
    if (bits == 0) {
      std::fill_n(logits.begin() + static_cast<std::ptrdiff_t>(begin), count, kMasked);
    } else if (bits != UINT32_MAX) {
      for (size_t i = 0; i < count; ++i) {
        if ((bits >> i & 1) == 0) logits[begin + i] = kMasked;
      }
    }
  }
}

void keep_allowed(std::span<float> logits, std::span<const TokenId> allowed, std::vector<float>& scratch) {
  if (allowed.empty()) return;
  scratch.clear();
  for (const TokenId id : allowed) scratch.push_back(in_row(logits, id) ? logits[index_of(id)] : kMasked);
  std::fill(logits.begin(), logits.end(), kMasked);
  for (size_t i = 0; i < allowed.size(); ++i) {
    if (in_row(logits, allowed[i])) logits[index_of(allowed[i])] = scratch[i];
  }
}

void mask_bad_words(std::span<float> logits, std::span<const std::vector<TokenId>> bad_words,
                    std::span<const TokenId> output) {
  for (const std::vector<TokenId>& word : bad_words) {
    if (word.empty() || word.size() - 1 > output.size() || !in_row(logits, word.back())) continue;
    const auto tail = output.last(word.size() - 1);
    if (std::equal(tail.begin(), tail.end(), word.begin())) logits[index_of(word.back())] = kMasked;
  }
}

void apply_repetition_penalty(std::span<float> logits, float penalty, const TokenHistory& history,
                              std::vector<uint8_t>& seen) {
  if (penalty == 1.0f) return;
  seen.resize(logits.size());
  for (const auto tokens : {history.prompt, history.output}) {
    for (const TokenId id : tokens) {
      if (!in_row(logits, id) || seen[index_of(id)] != 0) continue;
      seen[index_of(id)] = 1;
      float& x = logits[index_of(id)];
      x = x > 0.0f ? x / penalty : x * penalty;
    }
  }
  for (const auto tokens : {history.prompt, history.output}) {
    for (const TokenId id : tokens) {
      if (in_row(logits, id)) seen[index_of(id)] = 0;
    }
  }
}

void apply_output_penalties(std::span<float> logits, const SamplingParams& params,
                            std::span<const TokenId> output, std::vector<int32_t>& counts) {
  if (params.frequency_penalty == 0.0f && params.presence_penalty == 0.0f) return;
  counts.resize(logits.size());
  for (const TokenId id : output) {
    if (in_row(logits, id)) ++counts[index_of(id)];
  }
  for (const TokenId id : output) {
    if (!in_row(logits, id) || counts[index_of(id)] == 0) continue;
    const auto count = static_cast<float>(counts[index_of(id)]);
    counts[index_of(id)] = 0;
    logits[index_of(id)] -= params.frequency_penalty * count;
    logits[index_of(id)] -= params.presence_penalty;
  }
}

void process_logits(std::span<float> logits, const SamplingParams& params, const TokenHistory& history,
                    ProcessorScratch& scratch) {
  keep_allowed(logits, params.allowed_token_ids, scratch.kept);
  mask_bad_words(logits, params.bad_words, history.output);
  if (static_cast<int64_t>(history.output.size()) < params.min_tokens) {
    for (const TokenId id : params.stop_token_ids) {
      if (in_row(logits, id)) logits[index_of(id)] = kMasked;
    }
  }
  for (const auto& [id, bias] : params.logit_bias) {
    if (in_row(logits, id)) logits[index_of(id)] += bias;
  }
  apply_repetition_penalty(logits, params.repetition_penalty, history, scratch.seen);
  apply_output_penalties(logits, params, history.output, scratch.counts);
}

bool changes_logits(const SamplingParams& params) noexcept {
  const bool masks = !params.allowed_token_ids.empty() || !params.bad_words.empty() || params.min_tokens > 0;
  const bool penalises = params.repetition_penalty != 1.0f || params.frequency_penalty != 0.0f ||
                         params.presence_penalty != 0.0f;
  return masks || penalises || !params.logit_bias.empty();
}

void sanitize(std::span<float> logits) noexcept {
  for (float& x : logits) {
    x = std::isnan(x) ? kMasked : x;
    x = x > std::numeric_limits<float>::max() ? std::numeric_limits<float>::max() : x;
  }
}

}  // namespace pagoda::sampling
