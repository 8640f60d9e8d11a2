// A feed-forward made of many, of which a router chooses a few for each token.
//
// The (token, expert) pairs of a step are sorted by expert, so that each expert is one product over all of
// its tokens and all experts are one parallel section. A token's result depends on itself alone: a row of a
// product is the same whatever rows are beside it, and what its experts gave is added in the order of their
// weights.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/activations.h"
#include "kernels/grouped_matmul.h"
#include "model/config.h"
#include "model/decoder_weights.h"
#include "model/residual_stream.h"

namespace pagoda::model {

class MixtureOfExperts {
 public:
  // The widths of the widest layer's gate and up, and of `down`.
  struct Widths {
    int64_t gate_up = 0, down = 0;
  };
  MixtureOfExperts(const ModelConfig& config, int64_t max_tokens, const Widths& widths);

  // Adds the output to the stream.
  void run(const ExpertsWeights& weights, const NormWeights& norm, const NormWeights& post_norm,
           ResidualStream& stream) noexcept;

  size_t scratch_bytes() const noexcept { return logits_.bytes() + gate_up_.bytes() + out_.bytes(); }

 private:
  // Tokens [first, first + count) of the step.
  struct Piece {
    int64_t first, count;
  };
  void choose(const Piece& piece, ComputePool& pool) noexcept;
  void sort_by_expert(const Piece& piece) noexcept;
  void multiply(const ExpertsWeights& weights, kernels::ConstRowsView normed,
                ResidualStream& stream) noexcept;
  void combine(const Piece& piece, ResidualStream& stream) noexcept;
  // The products of the experts that have pairs.
  void run_experts(const std::vector<Projection>& projections, const kernels::Activations& x, Rows& out,
                   ComputePool& pool) noexcept;

  const MoeConfig& moe_;
  kernels::GatedActivation activation_;
  int64_t piece_tokens_;
  Rows logits_;                  // of the router, [max_tokens, num_experts]
  std::vector<int32_t> expert_;  // [token * experts_per_token + choice] of a piece
  std::vector<float> weight_;    // the same
  std::vector<int32_t> pair_;    // the same: where the pair is among those sorted by expert
  std::vector<int32_t> token_;   // of every sorted pair: its row in the step
  std::vector<int64_t> starts_;  // [num_experts + 1]: the pairs of an expert
  std::vector<kernels::GroupedJob> jobs_;
  kernels::ActivationBuffer inputs_, gated_;  // of every pair
  Rows gate_up_, out_;                        // the same
};

}  // namespace pagoda::model
