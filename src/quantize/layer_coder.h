// Rounds the matrices of one layer by what is known of their inputs.
#pragma once

#include <optional>
#include <vector>

#include "base/thread_pool.h"
#include "model/decoder_weights.h"
#include "quantize/calibration.h"
#include "quantize/coded_matrix.h"
#include "quantize/gptq.h"
#include "quantize/options.h"

namespace pagoda::quantize {

class LayerCoder {
 public:
  // `options` and `pool` must outlive it. What the first matrix of an input makes of the Hessian, those
  // behind it use again; it is gone when one with another input comes.
  LayerCoder(LayerHessians hessians, const Options& options, ComputePool& pool);

  // `values` is [linear.rows, linear.depth]. Matrices with the same input must follow each other.
  CodedMatrix code(const Linear& linear, const float* values);

 private:
  void take(model::LayerWeights::Input which);

  LayerHessians hessians_;
  const Options& options_;
  ComputePool& pool_;
  std::optional<model::LayerWeights::Input> taken_;
  std::optional<GptqInput> input_;  // of Rounding::kGptq
  std::vector<float> importance_;   // of Rounding::kNearest
};

}  // namespace pagoda::quantize
