#include "model/residual_stream.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/norm.h"

namespace pagoda::model {

ResidualStream::ResidualStream(const ModelConfig& config, const Size& size, ComputePool& pool)
    : width_(config.hidden_size),
      scale_(config.residual_scale),
      rows_(size.max_tokens, config.hidden_size),
      block_out_(size.max_rows, config.hidden_size),
      converted_(size.max_rows, std::max(config.hidden_size, size.max_depth)),
      pool_(pool) {}

void ResidualStream::begin(int64_t num_tokens) noexcept {
  num_tokens_ = num_tokens;
}

void ResidualStream::read(const NormWeights& norm, const kernels::ActivationSpec& input) noexcept {
  kernels::norm_convert(rows(), norm.view(), input, converted_, pool_);
}

void ResidualStream::project(const Projection& projection, const NormWeights& norm, Rows& out) noexcept {
  for (size_t i = 0; i < projection.num_inputs(); ++i) {
    read(norm, projection.input(i));
    observe(projection, converted_);
    projection.run(converted_.view(), out.row(0), out.stride, false, pool_);
  }
}

void ResidualStream::add(const Projection& projection, const kernels::ActivationBuffer& input,
                         const NormWeights& post_norm) noexcept {
  observe(projection, input);
  if (post_norm.empty() && scale_ == 1.0f) {
    projection.run(input.view(), rows_.row(0), rows_.stride, true, pool_);
    return;
  }
  projection.run(input.view(), block_out_.row(0), block_out_.stride, false, pool_);
  add_block_out(post_norm);
}

void ResidualStream::add_block_out(const NormWeights& post_norm) noexcept {
  pool_.run(static_cast<int>(num_tokens_), [&](int token, int) {
    float* const y = block_out_.row(token);
    float* const row = rows_.row(token);
    if (!post_norm.empty()) kernels::norm_row(y, post_norm.view(), width_, y);
    for (int64_t i = 0; i < width_; ++i) row[i] += scale_ * y[i];
  });
}

}  // namespace pagoda::model
