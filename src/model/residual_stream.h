// The residual stream of a step: a row for each token. Every block reads it through a norm and adds its
// result.
#pragma once

#include <cstdint>

#include "base/thread_pool.h"
#include "kernels/activations.h"
#include "model/config.h"
#include "model/decoder_weights.h"
#include "model/input_observer.h"
#include "model/rows.h"

namespace pagoda::model {

class ResidualStream {
 public:
  struct Size {
    int64_t max_tokens = 0;  // rows of a step
    int64_t max_rows = 0;    // rows of block_out() and converted(): more when more logits may be wanted
    int64_t max_depth = 0;   // of an input that goes through converted(), beside the stream's own width
  };
  ResidualStream(const ModelConfig& config, const Size& size, ComputePool& pool);

  // The step has `num_tokens` rows; the caller fills them.
  void begin(int64_t num_tokens) noexcept;
  int64_t num_tokens() const noexcept { return num_tokens_; }
  int64_t width() const noexcept { return width_; }
  kernels::RowsView rows() noexcept { return rows_.view(num_tokens_, width_); }
  ComputePool& pool() noexcept { return pool_; }
  size_t scratch_bytes() const noexcept { return rows_.bytes() + block_out_.bytes(); }

  // norm(rows) in the form of `input`, in converted().
  void read(const NormWeights& norm, const kernels::ActivationSpec& input) noexcept;
  // out = projection(norm(rows)).
  void project(const Projection& projection, const NormWeights& norm, Rows& out) noexcept;
  // rows += scale * post_norm(projection(input)), without norm where the family has none.
  void add(const Projection& projection, const kernels::ActivationBuffer& input,
           const NormWeights& post_norm) noexcept;

  // rows += scale * post_norm(block_out).
  void add_block_out(const NormWeights& post_norm) noexcept;

  // Scratch for the input of the next product.
  kernels::ActivationBuffer& converted() noexcept { return converted_; }
  // Scratch of the stream's width: the output of a block before it is added.
  Rows& block_out() noexcept { return block_out_; }

  // While `observer` is set, it is told every input of a projection.
  void measure(InputObserver* observer) noexcept { observer_ = observer; }
  // The converted activations of an input are complete.
  void observe(const Projection& projection, const kernels::ActivationBuffer& input) noexcept {
    if (observer_ != nullptr) observer_->observe(&projection, input.view());
  }

 private:
  int64_t width_, num_tokens_ = 0;
  float scale_;
  Rows rows_, block_out_;
  kernels::ActivationBuffer converted_;
  ComputePool& pool_;
  InputObserver* observer_ = nullptr;
};

}  // namespace pagoda::model
