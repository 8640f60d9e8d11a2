// What a BERT-type encoder needs beside matrix products and LayerNorm (norm.h): GELU and attention to both
// sides.
//
// The result of a row, and of a sequence, is the same for every batch and number of threads and on every
// tier, bit for bit: no sum is split by what else is in the batch, and no tier fuses or reorders operations.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/rows.h"
#include "tensor/aligned_buffer.h"

namespace pagoda::kernels {

// x = x / 2 * (1 + erf(x / sqrt(2))) in place; erf to 2e-7 (Abramowitz and Stegun 7.1.26).
void gelu_erf(RowsView x, ComputePool& pool) noexcept;

// Rows [first, first + count) of a flat batch are one sequence.
struct RowRange {
  int64_t first = 0, count = 0;
};

// Scratch of encoder_attention(), for the longest sequence.
class EncoderAttentionScratch {
 public:
  EncoderAttentionScratch() = default;
  EncoderAttentionScratch(int64_t max_sequence, int head_dim, int num_threads);
  float* of(int worker) noexcept { return buffer_.as<float>() + worker * stride_; }
  int64_t max_sequence() const noexcept { return max_sequence_; }
  size_t bytes() const noexcept { return buffer_.size(); }

 private:
  int64_t max_sequence_ = 0, stride_ = 0;
  AlignedBuffer buffer_;
};

struct EncoderHeads {
  int num_heads = 0;
  int head_dim = 0;
  float scale = 0;  // multiplies q . k
};

struct EncoderRows {
  RowsView qkv, out;
};

// out = softmax(scale * q k^T) v per head, every token of a sequence seeing all of it. Rows of `qkv` hold q,
// k and v of all heads one after the other, those of `out` the heads side by side.
void encoder_attention(const EncoderRows& rows, std::span<const RowRange> sequences,
                       const EncoderHeads& heads, EncoderAttentionScratch& scratch,
                       ComputePool& pool) noexcept;

}  // namespace pagoda::kernels
