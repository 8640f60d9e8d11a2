#include "model/gated_feed_forward.h"

#include "kernels/gated_activation.h"

namespace pagoda::model {

GatedFeedForward::GatedFeedForward(const ModelConfig& config, int64_t max_tokens, int64_t gate_up_width,
                                   ComputePool& pool)
    : width_(config.intermediate_size),
      activation_(config.activation),
      gate_up_(max_tokens, gate_up_width),
      gated_(max_tokens, config.intermediate_size),
      scratch_(max_tokens, pool.num_threads()) {}

const kernels::ActivationBuffer& GatedFeedForward::run(const GatedWeights& weights, const NormWeights& norm,
                                                       ResidualStream& stream) noexcept {
  if (!run_in_one_pass(weights, norm, stream)) {
    const Projection& gate_up = weights.gate_up;
    const int64_t num_tokens = stream.num_tokens();
    stream.project(gate_up, norm, gate_up_);
    kernels::gated_activation_convert(activation_,
                                      {gate_up_.view(num_tokens, width_, gate_up.offset(0)),
                                       gate_up_.view(num_tokens, width_, gate_up.offset(1))},
                                      weights.down.input(), gated_, stream.pool());
  }
  return gated_;
}

// False if the weights don't allow it: gate and up with different inputs, or not in whole panels.
bool GatedFeedForward::run_in_one_pass(const GatedWeights& weights, const NormWeights& norm,
                                       ResidualStream& stream) noexcept {
  kernels::GatedProduct product;
  product.gate = weights.gate_up.panels(0);
  product.up = weights.gate_up.panels(1);
  product.size = width_;
  product.activation = activation_;
  if (product.gate.weight == nullptr || product.up.weight == nullptr || weights.gate_up.num_inputs() != 1 ||
      product.size % kPanelRows != 0) {
    return false;
  }
  stream.read(norm, weights.gate_up.input());
  stream.observe(weights.gate_up, stream.converted());
  gated_.begin(weights.down.input(), stream.num_tokens(), product.size);
  kernels::gated_matmul(stream.converted().view(), product, gated_, scratch_, stream.pool());
  return true;
}

}  // namespace pagoda::model
