// AWQ: inputs with large activations get finer steps, as their weights are multiplied by a scale before
// rounding and the inputs divided by it. So do inputs with small weights, which their groups have room for.
// Source: Lin et al. 2023, "AWQ: Activation-aware Weight Quantization for LLM Compression and Acceleration",
// section 3.2; the weights' part is that of the AutoAWQ implementation ("duo scaling").
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "quantize/coded_matrix.h"
#include "quantize/dense.h"

namespace pagoda::quantize {

// A matrix [rows, depth] of those that share an input.
struct AwqMatrix {
  const float* values = nullptr;
  int64_t rows = 0;
};

struct AwqInput {
  Dense hessian;
  std::vector<float> magnitudes;  // mean |x| of each channel
  std::vector<float> weights;     // what `relative_weights` says, or its mean over channels tied together
};

// Mean of |w| / max |w| of its group over the rows of all matrices, for each channel.
std::vector<float> relative_weights(std::span<const AwqMatrix> matrices, const CodedShape& shape);

// The scale of each channel, magnitude^a / weight^(1 - a) for the one of 20 exponents `a` from 0 on whose
// rounded matrices have the least error of their outputs: the sum over rows d of (rounded - w) of d H d^T.
// All ones when no scale is better than none. `shape` gives depth, groups and grid; its rows don't matter.
std::vector<float> awq_scales(std::span<const AwqMatrix> matrices, const AwqInput& input,
                              const CodedShape& shape, ComputePool& pool);

}  // namespace pagoda::quantize
