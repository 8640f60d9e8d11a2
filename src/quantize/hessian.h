// What is known of the inputs of a matrix: H = 2 / N * sum of x x^T over the N rows of calibration inputs
// (Frantar et al. 2022, section 3.1), and the mean magnitude of each channel.
#pragma once

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/activations.h"
#include "quantize/dense.h"

namespace pagoda::quantize {

class InputStatistics {
 public:
  explicit InputStatistics(int64_t depth);

  // x in bf16. The sums are float32, over the rows in the order of the calls.
  void add(const kernels::Activations& x, ComputePool& pool);
  int64_t count() const noexcept { return count_; }
  // The symmetric matrix [depth, depth].
  Dense hessian() const;
  std::vector<float> mean_magnitudes() const;

 private:
  int64_t depth_, count_ = 0;
  Dense sums_;  // upper triangle of whole blocks
  std::vector<double> magnitudes_;
};

}  // namespace pagoda::quantize
