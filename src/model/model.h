// A loaded model: one forward step over a flat batch of tokens.
#pragma once

#include <cstdint>
#include <span>

#include "base/ids.h"
#include "kernels/attention.h"
#include "model/config.h"
#include "tensor/kv_storage.h"

namespace pagoda::model {

// One step: the new tokens of all sequences, one after the other, without padding.
struct ForwardInput {
  std::span<const TokenId> tokens;                        // [num_tokens]
  std::span<const kernels::AttentionSequence> sequences;  // cover `tokens` in order
  std::span<const int64_t> logit_rows;  // ascending indices into `tokens` whose logits are wanted
};

// Called by the engine thread only. Tests implement it with fakes.
class Model {
 public:
  virtual ~Model() = default;
  virtual const ModelConfig& config() const = 0;
  virtual KvShape kv_shape() const = 0;
  // Floats between two rows of logits: vocab_size rounded up to the kernels' panel.
  virtual int64_t logits_stride() const = 0;
  // Appends the tokens' keys and values to `kv` and writes logits of row logit_rows[i] to logits + i *
  // logits_stride(). Limits fixed at load: number of tokens, of logit rows, longest context. No allocation,
  // no failure.
  virtual void forward(const ForwardInput& input, KvStorage& kv, float* logits) noexcept = 0;
};

}  // namespace pagoda::model
