#include "model/plain_feed_forward.h"

namespace pagoda::model {

PlainFeedForward::PlainFeedForward(const ModelConfig& config, int64_t max_tokens)
    : width_(config.intermediate_size),
      activation_(config.activation),
      up_(max_tokens, config.intermediate_size),
      activated_(max_tokens, config.intermediate_size) {}

const kernels::ActivationBuffer& PlainFeedForward::run(const PlainWeights& weights, const NormWeights& norm,
                                                       ResidualStream& stream) noexcept {
  stream.project(weights.up, norm, up_);
  kernels::activation_convert(activation_, up_.view(stream.num_tokens(), width_), weights.down.input(),
                              activated_, stream.pool());
  return activated_;
}

}  // namespace pagoda::model
