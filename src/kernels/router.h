// Which experts a token goes to: softmax over its router logits, the largest k of them.
// Source: Shazeer et al. 2017 (sparsely gated mixtures of experts) section 2.1; the order of softmax and
// choice as in Mixtral and Qwen 3.
#pragma once

#include <cstdint>
#include <span>

namespace pagoda::kernels {

inline constexpr int kMaxExperts = 1024;
inline constexpr int kMaxExpertsPerToken = 64;

// ids and weights have k entries, the largest weight first, equal ones by lower id; k <= logits.size() <=
// kMaxExperts. With `renormalise` the weights add up to one. On the calling thread; the same on every tier.
struct ExpertChoice {
  std::span<int32_t> ids;
  std::span<float> weights;
};
void choose_experts(std::span<const float> logits, bool renormalise, const ExpertChoice& out) noexcept;

}  // namespace pagoda::kernels
