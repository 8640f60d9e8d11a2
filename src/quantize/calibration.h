// Calibration: the model runs over some text, layer by layer, so that what is rounded next sees inputs that
// come from layers which are rounded already.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "model/checkpoint.h"
#include "model/layer_runner.h"
#include "quantize/hessian.h"

namespace pagoda::quantize {

using Samples = std::vector<std::vector<TokenId>>;

// A number for what the samples are.
uint64_t samples_hash(const Samples& samples);

// Statistics of the four inputs of a layer, by LayerWeights::Input.
using LayerStatistics = std::array<std::unique_ptr<InputStatistics>, 4>;
using LayerHessians = std::array<Dense, 4>;
// `statistics` are used up.
LayerHessians hessians_of(LayerStatistics& statistics);

class Calibration {
 public:
  // Called after every sample; an error ends the pass.
  using Step = std::function<Result<void>()>;

  // Reads the embeddings of all samples. `checkpoint` and `pool` must outlive it.
  static Result<Calibration> create(const model::Checkpoint& checkpoint, const Samples& samples,
                                    ComputePool& pool);

  // The layer that the next calls run, with the weights of `tensors`.
  Result<void> load(int layer, const model::TensorSource& tensors) { return runner_->load(layer, tensors); }
  // What the inputs of its projections look like.
  Result<LayerStatistics> collect(const Step& step);
  // Puts the layer's outputs in the place of its inputs.
  Result<void> advance(const Step& step);

  // The inputs of the next layer, in a file and back. False: the file is not there.
  Result<void> save(const std::string& path) const;
  Result<bool> restore(const std::string& path);

 private:
  struct Rows {
    size_t first = 0;  // in states_
    int64_t count = 0;
  };
  Calibration() = default;

  const model::ModelConfig* config_ = nullptr;
  ComputePool* pool_ = nullptr;
  std::unique_ptr<model::LayerRunner> runner_;
  std::vector<Rows> samples_;
  std::vector<float> states_;  // [tokens, hidden]: float32, as the outliers of a residual stream need
};

}  // namespace pagoda::quantize
