// The packed weights of a decoder, in the order that the forward pass uses them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "kernels/activations.h"
#include "kernels/gated_matmul.h"
#include "kernels/matmul.h"
#include "model/checkpoint.h"
#include "model/pack.h"
#include "tensor/packed_weight.h"

namespace pagoda::model {

// One or more matrices that multiply the same input (q, k, v; gate, up). They are packed as one weight where
// their formats allow it and run as one parallel section in any case. Section s of the output starts at
// column offset(s).
class Projection {
 public:
  struct Section {
    std::string name;  // tensor name without ".weight"; "<name>.bias" is read when has_bias
    int64_t rows = 0;
    bool has_bias = false;
  };

  // Registers the matrices with `packer`; the projection can run once that has packed them.
  static Result<Projection> load(const TensorSource& tensors, std::span<const Section> sections,
                                 int64_t depth, WeightPacker& packer);

  int64_t offset(size_t section) const { return offsets_[section]; }
  int64_t width() const { return width_; }  // floats of one output row; a multiple of 32
  int64_t depth() const { return depth_; }
  std::span<const PackedWeight> weights() const { return weights_; }
  // The distinct forms that the weights multiply with; nearly always one.
  std::span<const kernels::ActivationForm> forms() const { return forms_; }
  // The input in one of forms(); valid while the projection stays where it is.
  kernels::ActivationSpec input(kernels::ActivationForm form) const { return {form, &wide_}; }
  // Of a projection with one section.
  kernels::ActivationSpec input() const { return input(forms_.front()); }
  // Which groups of a coded input are wide; all of them after load().
  void set_wide(kernels::WideGroups wide) { wide_ = std::move(wide); }

  // Where the rows of a section are; no weight if they don't start with a panel.
  kernels::PanelRows panels(size_t section) const;

  // out (+)= x W^T + b for every weight whose form is x.form. out rows are `out_stride` floats apart.
  void run(const kernels::Activations& x, float* out, int64_t out_stride, bool accumulate,
           ComputePool& pool) const noexcept;

 private:
  std::vector<PackedWeight> weights_;
  std::vector<std::vector<float>> biases_;  // parallel to weights_; empty = none
  std::vector<int64_t> columns_;            // parallel to weights_: first output column
  std::vector<int64_t> offsets_;            // per section
  std::vector<kernels::ActivationForm> forms_;
  kernels::WideGroups wide_;
  int64_t width_ = 0, depth_ = 0;
};

struct LayerWeights {
  std::vector<float> attention_norm;       // [hidden]
  std::vector<float> q_norm, k_norm;       // [head_dim] or empty
  std::vector<float> post_attention_norm;  // [hidden] or empty (Gemma)
  std::vector<float> feed_forward_norm;    // [hidden]
  std::vector<float> post_feed_forward_norm;
  Projection qkv;  // sections q, k, v
  Projection attention_out;
  Projection gate_up;  // sections gate, up
  Projection down;
};

struct DecoderWeights {
  PackedWeight embedding;              // [vocab, hidden]; also the output head when tied
  kernels::WideGroups tied_head_wide;  // of the embedding's input as output head
  std::vector<LayerWeights> layers;
  std::vector<float> final_norm;
  Projection head;   // empty (width 0) when tied to the embedding
  size_t bytes = 0;  // packed bytes of all matrices
};

// Reads and packs everything the configuration names; all panels lie in one piece of memory in the order in
// which a step reads them. Nothing refers to the checkpoint afterwards. An absent or misshapen tensor is an
// error that names it.
Result<DecoderWeights> load_decoder_weights(const Checkpoint& checkpoint, WeightPrecision precision,
                                            ComputePool& pool);

}  // namespace pagoda::model
