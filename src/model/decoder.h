// The pre-norm decoder that the llama family shares (llama, mistral, qwen2, qwen3, gemma3): RMSNorm,
// grouped-query attention with RoPE, gated feed-forward. What differs between them is data in ModelConfig.
#pragma once

#include <memory>

#include "base/result.h"
#include "base/thread_pool.h"
#include "model/checkpoint.h"
#include "model/model.h"
#include "model/pack.h"
#include "model/wide_groups.h"

namespace pagoda::model {

struct DecoderOptions {
  WeightPrecision precision = WeightPrecision::kNative;
  // What 4- and 8-bit weights multiply with; 16 bits cost up to half the speed of long prompts and batches.
  ActivationPrecision activation_precision = ActivationPrecision::kInt8;
  DType kv_dtype = DType::kBF16;
  int64_t max_tokens = 512;      // tokens of one forward step
  int64_t max_logit_rows = 128;  // logit rows of one forward step
  int64_t max_context = 0;       // longest sequence in tokens
};

// A loaded decoder: also tells what it costs, for the memory plan.
class Decoder : public Model {
 public:
  virtual size_t weight_bytes() const = 0;   // packed weights
  virtual size_t scratch_bytes() const = 0;  // activations of one step
  // "w4 g32: 120, w8 g32: 1; int16 activations": how many matrices have which layout.
  virtual std::string layout_summary() const = 0;
  // As forward(), but instead of logits the rows behind the final norm: [logit_rows, hidden_size], one after
  // the other. There may be one for each token.
  virtual void forward_hidden(const ForwardInput& input, KvStorage& kv, float* rows) noexcept = 0;
};

// Packs the weights with all threads of `pool`, which must outlive the model and runs its kernels.
Result<std::unique_ptr<Decoder>> load_decoder(const Checkpoint& checkpoint, const DecoderOptions& options,
                                              ComputePool& pool);

}  // namespace pagoda::model
