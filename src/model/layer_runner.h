// Runs single layers of a decoder outside of the model, for those who change the weights layer by layer and
// want to see what goes in and comes out.
#pragma once

#include <cstdint>
#include <memory>

#include "base/function_ref.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "kernels/activations.h"
#include "kernels/attention_sequence.h"
#include "model/config.h"
#include "model/decoder_weights.h"
#include "model/tensor_source.h"
#include "tensor/kv_storage.h"

namespace pagoda::model {

class LayerRunner {
 public:
  // Called with every input of a layer's projections, as that is converted for the product.
  using Observe = FunctionRef<void(LayerWeights::Input, const kernels::Activations&)>;

  // For sequences of up to `max_tokens` tokens. `pool` must outlive the runner.
  LayerRunner(const ModelConfig& config, int64_t max_tokens, ComputePool& pool);
  ~LayerRunner();

  // The layer that run() runs from now on. Weights of floats run as bf16.
  Result<void> load(int layer, const TensorSource& tensors);
  // Replaces rows [num_tokens, hidden_size], one after the other, of a sequence that begins at position 0 by
  // the layer's output.
  void run(float* rows, int64_t num_tokens) noexcept;
  void run(float* rows, int64_t num_tokens, const Observe& observe) noexcept;

 private:
  struct Loaded;
  void run_layer(float* rows, int64_t num_tokens) noexcept;

  ModelConfig config_;
  int64_t max_tokens_;
  ComputePool& pool_;
  KvStorage kv_;
  std::vector<BlockId> blocks_;
  std::unique_ptr<Loaded> loaded_;
};

}  // namespace pagoda::model
