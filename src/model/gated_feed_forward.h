// The gated feed-forward of a decoder layer up to its last projection: act(gate(x)) * up(x).
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
  // `gate_up_width` is that of the widest layer.
  GatedFeedForward(const ModelConfig& config, int64_t max_tokens, int64_t gate_up_width, ComputePool& pool);

  // The input of `down`, in a buffer that stays until the next call.
  const kernels::ActivationBuffer& run(const GatedWeights& weights, const NormWeights& norm,
                                       ResidualStream& stream) noexcept;

  size_t scratch_bytes() const noexcept { return gate_up_.bytes(); }

 private:
  bool run_in_one_pass(const GatedWeights& weights, const NormWeights& norm, ResidualStream& stream) noexcept;

  int64_t width_;
  kernels::GatedActivation activation_;
  Rows gate_up_;
  kernels::ActivationBuffer gated_;  // the input of `down`
  kernels::GatedScratch scratch_;
};

}  // namespace pagoda::model
