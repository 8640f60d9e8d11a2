// The packed weights of a decoder, in the order that the forward pass uses them.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "kernels/activations.h"
#include "kernels/norm.h"
#include "model/checkpoint.h"
#include "model/pack.h"
#include "model/projection.h"
#include "tensor/packed_weight.h"

namespace pagoda::model {

struct NormWeights {
  kernels::NormKind kind = kernels::NormKind::kRms;
  float eps = 0;
  std::vector<float> weight, bias;

  bool empty() const noexcept { return weight.empty(); }  // the family has no norm here
  kernels::Norm view() const noexcept { return {kind, eps, weight.data(), bias.data()}; }
};

struct AttentionWeights {
  NormWeights norm;
  NormWeights q_norm, k_norm;  // of one head; empty in most families
  NormWeights post_norm;       // of the block's output; empty but in Gemma
  Projection qkv;              // sections q, k, v
  Projection out;
};

struct GatedWeights {
  Projection gate_up;  // sections gate, up
  Projection down;
};

struct PlainWeights {
  Projection up, down;
};

// All projections of a kind have the same sections and the same form of input, so that the rows of all
// experts are converted together, as for the first.
struct ExpertsWeights {
  Projection router;                // in float32: rounding must not change who is chosen
  std::vector<Projection> gate_up;  // [num_experts], sections gate, up
  std::vector<Projection> down;     // [num_experts]
};

struct FeedForwardWeights {
  NormWeights norm;
  NormWeights post_norm;  // as in AttentionWeights
  std::variant<GatedWeights, PlainWeights, ExpertsWeights> block;
};

struct LayerWeights {
  AttentionWeights attention;
  FeedForwardWeights feed_forward;

  // What an input of a projection is; model/wide_groups.h treats them differently.
  enum class Input : uint8_t { kQkv, kAttentionOut, kFeedForward, kDown };
  // Calls use(projection, input) for every projection of which inputs are converted, in the order of a step:
  // the first expert stands for all.
  void for_each(FunctionRef<void(Projection&, Input)> use);
  void for_each(FunctionRef<void(const Projection&, Input)> use) const;
};

struct DecoderWeights {
  PackedWeight embedding;              // [vocab, hidden]; also the output head when tied
  kernels::WideGroups tied_head_wide;  // of the embedding's input as output head
  std::vector<float> positions;        // [max_positions, hidden], added to the embedding; empty with RoPE
  std::vector<LayerWeights> layers;
  NormWeights final_norm;
  Projection head;   // empty (width 0) when tied to the embedding
  size_t bytes = 0;  // of all matrices

  // "w4 g32: 120, w8 g32: 1; 13 % of the activations in 16 bits, the rest in 8": how many matrices have which
  // layout.
  std::string layout_summary() const;
};

// What load_decoder_weights would take, in bytes.
Result<uint64_t> decoder_weight_bytes(const Checkpoint& checkpoint, WeightPrecision precision);

// One layer by itself, in the native formats of `tensors`.
Result<LayerWeights> load_layer_weights(const ModelConfig& config, const TensorSource& tensors, int index,
                                        ComputePool& pool);

// Reads and packs everything the configuration names; all panels lie in one piece of memory in the order in
// which a step reads them. Nothing refers to the checkpoint afterwards. An absent or misshapen tensor is an
// error that names it.
Result<DecoderWeights> load_decoder_weights(const Checkpoint& checkpoint, WeightPrecision precision,
                                            ComputePool& pool);

}  // namespace pagoda::model
