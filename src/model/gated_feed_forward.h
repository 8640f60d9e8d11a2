// The gated feed-forward of a decoder layer: down(act(gate(x)) * up(x)).
#pragma once

#include <cstdint>

#include "kernels/activations.h"
#include "kernels/gated_matmul.h"
#include "model/config.h"
#include "model/decoder_weights.h"
#include "model/residual_stream.h"

namespace pagoda::model {

class GatedFeedForward {
 public:
  struct Size {
    int64_t max_tokens = 0;     // of a step
    int64_t gate_up_width = 0;  // of the widest layer
  };
  GatedFeedForward(const ModelConfig& config, const Size& size, ComputePool& pool);

  // Adds the output to the stream.
  void run(const FeedForwardWeights& weights, ResidualStream& stream) noexcept;

  size_t scratch_bytes() const noexcept { return gate_up_.bytes(); }

 private:
  bool run_in_one_pass(const FeedForwardWeights& weights, ResidualStream& stream) noexcept;

  int64_t width_;
  kernels::GatedActivation activation_;
  Rows gate_up_;
  kernels::ActivationBuffer gated_;  // the input of `down`
  kernels::GatedScratch scratch_;
};

}  // namespace pagoda::model
