#include "quantize/layer_coder.h"

#include <utility>

#include "base/check.h"

namespace pagoda::quantize {

LayerCoder::LayerCoder(LayerHessians hessians, const Options& options, ComputePool& pool)
    : hessians_(std::move(hessians)), options_(options), pool_(pool) {}

void LayerCoder::take(model::LayerWeights::Input which) {
  if (taken_ == which) return;
  taken_ = which;
  Dense hessian = std::exchange(hessians_[static_cast<size_t>(which)], Dense());
  PAGODA_CHECK(hessian.rows() > 0, "matrices with input {} don't follow each other", static_cast<int>(which));
  input_.reset();
  importance_.clear();
  if (options_.rounding == Rounding::kGptq) {
    input_.emplace(std::move(hessian), pool_);
    return;
  }
  for (int64_t k = 0; k < hessian.rows(); ++k) importance_.push_back(hessian.at(k, k));
}

CodedMatrix LayerCoder::code(const Linear& linear, const float* values) {
  take(linear.input);
  const CodedShape shape = options_.shape(linear);
  if (options_.rounding == Rounding::kNearest) return round_to_nearest(values, shape, pool_, importance_);
  return gptq(values, shape, *input_, options_.act_order ? Grouping::kActOrder : Grouping::kNeighbours,
              pool_);
}

}  // namespace pagoda::quantize
