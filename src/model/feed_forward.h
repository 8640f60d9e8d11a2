// The feed-forward block of a decoder layer, of whichever kind its weights are.
#pragma once

#include <cstdint>
#include <optional>

#include "model/config.h"
#include "model/decoder_weights.h"
#include "model/gated_feed_forward.h"
#include "model/mixture_of_experts.h"
#include "model/plain_feed_forward.h"
#include "model/residual_stream.h"

namespace pagoda::model {

class FeedForward {
 public:
  // Makes room for the kinds that the layers of `weights` are of.
  FeedForward(const ModelConfig& config, int64_t max_tokens, const DecoderWeights& weights,
              ComputePool& pool);

  // Adds the output to the stream.
  void run(const FeedForwardWeights& weights, ResidualStream& stream) noexcept;

  size_t scratch_bytes() const noexcept;

 private:
  std::optional<GatedFeedForward> gated_;
  std::optional<PlainFeedForward> plain_;
  std::optional<MixtureOfExperts> experts_;
};

}  // namespace pagoda::model
