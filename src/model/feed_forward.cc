#include "model/feed_forward.h"

#include <algorithm>

namespace pagoda::model {

FeedForward::FeedForward(const ModelConfig& config, int64_t max_tokens, const DecoderWeights& weights,
                         ComputePool& pool) {
  int64_t gate_up_width = 0;
  bool has_plain = false;
  MixtureOfExperts::Widths widths;
  for (const LayerWeights& layer : weights.layers) {
    const auto& block = layer.feed_forward.block;
    if (const auto* const gated = std::get_if<GatedWeights>(&block)) {
      gate_up_width = std::max(gate_up_width, gated->gate_up.width());
    }
    has_plain = has_plain || std::holds_alternative<PlainWeights>(block);
    if (const auto* const experts = std::get_if<ExpertsWeights>(&block)) {
      widths.gate_up = std::max(widths.gate_up, experts->gate_up.front().width());
      widths.down = std::max(widths.down, experts->down.front().width());
    }
  }
  if (gate_up_width > 0) gated_.emplace(config, max_tokens, gate_up_width, pool);
  if (has_plain) plain_.emplace(config, max_tokens);
  if (widths.down > 0) experts_.emplace(config, max_tokens, widths);
}

void FeedForward::run(const FeedForwardWeights& weights, ResidualStream& stream) noexcept {
  if (const auto* const gated = std::get_if<GatedWeights>(&weights.block)) {
    stream.add(gated->down, gated_->run(*gated, weights.norm, stream), weights.post_norm);
  } else if (const auto* const plain = std::get_if<PlainWeights>(&weights.block)) {
    stream.add(plain->down, plain_->run(*plain, weights.norm, stream), weights.post_norm);
  } else if (const auto* const experts = std::get_if<ExpertsWeights>(&weights.block)) {
    experts_->run(*experts, weights.norm, weights.post_norm, stream);
  }
}

size_t FeedForward::scratch_bytes() const noexcept {
  return (gated_ ? gated_->scratch_bytes() : 0) + (plain_ ? plain_->scratch_bytes() : 0) +
         (experts_ ? experts_->scratch_bytes() : 0);
}

}  // namespace pagoda::model
