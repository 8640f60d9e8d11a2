// The feed-forward without a gate, up to its last projection: act(up(x)).
#pragma once

#include <cstdint>

#include "kernels/activations.h"
#include "kernels/gated_activation.h"
#include "model/config.h"
#include "model/decoder_weights.h"
#include "model/residual_stream.h"

namespace pagoda::model {

class PlainFeedForward {
 public:
  PlainFeedForward(const ModelConfig& config, int64_t max_tokens);

  // The input of `down`, in a buffer that stays until the next call.
  const kernels::ActivationBuffer& run(const PlainWeights& weights, const NormWeights& norm,
                                       ResidualStream& stream) noexcept;

  size_t scratch_bytes() const noexcept { return up_.bytes(); }

 private:
  int64_t width_;
  kernels::GatedActivation activation_;
  Rows up_;
  kernels::ActivationBuffer activated_;
};

}  // namespace pagoda::model
