// GPTQ: columns are rounded one after the other, and what each loses is made up for by those that follow.
// Source: Frantar et al. 2022, "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained
// Transformers", algorithm 1; act-order is from the authors' code.
#pragma once

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"
#include "quantize/coded_matrix.h"
#include "quantize/dense.h"

namespace pagoda::quantize {

// What all matrices with the same inputs share. Columns are rounded by falling diagonal of the Hessian: those
// that matter most have the most others left to make up for them.
class GptqInput {
 public:
  // `hessian` is used up.
  GptqInput(Dense hessian, ComputePool& pool);

  // Column `order()[j]` is the j-th to be rounded.
  const std::vector<int32_t>& order() const noexcept { return order_; }
  const Dense& factor() const noexcept { return factor_; }
  // The diagonal of the Hessian, of each column; 0 for inputs that were always zero.
  const std::vector<float>& importance() const noexcept { return importance_; }

 private:
  std::vector<int32_t> order_;
  std::vector<float> importance_;
  Dense factor_;  // upper, of the inverse of the damped Hessian, in that order
};

enum class Grouping : uint8_t {
  kNeighbours,  // columns as they lie; the grids are those of the weights before any is rounded
  kActOrder,    // columns that are rounded one after the other (desc_act); a grid is that of what is left by
                // then
};

// `values` is [rows, depth].
CodedMatrix gptq(const float* values, const CodedShape& shape, const GptqInput& input, Grouping grouping,
                 ComputePool& pool);

}  // namespace pagoda::quantize
