// Causal self-attention of a decoder layer: projections, per-head norms, positions, cache, output.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention.h"
#include "kernels/rope.h"
#include "model/config.h"
#include "model/decoder_weights.h"
#include "model/key_balance.h"
#include "model/model.h"
#include "model/residual_stream.h"

namespace pagoda::model {

class AttentionBlock {
 public:
  struct Size {
    int64_t max_tokens = 0;   // of a step
    int64_t max_context = 0;  // of a sequence
    int64_t qkv_width = 0;    // of the widest layer
  };
  // `config` must outlive the block.
  AttentionBlock(const ModelConfig& config, const Size& size, ComputePool& pool);

  // Looks at the sequences of a step, which must stay as they are until its last layer is done.
  void begin(const ForwardInput& input) noexcept;
  // Of every token of the step.
  std::span<const int64_t> positions() const noexcept { return positions_; }
  // Writes the keys and values of layer `layer` and adds the attention's output to the stream.
  void run(const AttentionWeights& weights, int layer, KvStorage& kv, ResidualStream& stream) noexcept;

  // For caches of int8 codes.
  KeyBalance& key_balance() noexcept { return key_balance_; }

  size_t scratch_bytes() const noexcept { return qkv_.bytes() + attended_.bytes(); }

 private:
  const kernels::RopeTable& rope_of(int64_t window) const noexcept {
    return window > 0 && config_.has_rope_sliding ? rope_sliding_ : rope_;
  }
  void finish_qkv(const AttentionWeights& weights, int layer, const PagedKvView& kv,
                  ResidualStream& stream) noexcept;
  void finish_heads(float* heads, int count, const NormWeights& norm, const kernels::RopeTable& rope,
                    int64_t position) noexcept;

  const ModelConfig& config_;
  int64_t max_context_;
  kernels::RopeTable rope_, rope_sliding_;
  KeyBalance key_balance_;
  Rows qkv_;       // q, k, v of all tokens
  Rows attended_;  // heads side by side
  kernels::AttentionScratch scratch_;
  kernels::SharedPrefixes shared_prefixes_;
  std::span<const kernels::AttentionSequence> sequences_;
  std::vector<int64_t> positions_;    // of every token
  std::vector<int32_t> sequence_of_;  // index of its sequence
};

}  // namespace pagoda::model
