#include "kernels/encoder.h"

#include "base/check.h"
#include "kernels/chunks.h"
#include "kernels/dispatch.h"

namespace pagoda::kernels {
namespace {

constexpr int64_t kLanes = 16;

int64_t padded(int64_t count) {
  return (count + kLanes - 1) / kLanes * kLanes;
}

const EncoderBody& body() {
  return pick(scalar::encoder_body, avx2::encoder_body, avx512::encoder_body);
}

}  // namespace

void gelu_erf(RowsView x, ComputePool& pool) noexcept {
  const int chunks = chunk_count(static_cast<double>(x.rows * x.width), x.rows, pool.num_threads());
  pool.run(chunks, [&](int chunk, int) {
    const auto [begin, end] = chunk_range(x.rows, chunks, chunk);
    for (int64_t row = begin; row < end; ++row) body().gelu_erf(x.row(row), x.width);
  });
}

EncoderAttentionScratch::EncoderAttentionScratch(int64_t max_sequence, int head_dim, int num_threads)
    : max_sequence_(max_sequence) {
  const int64_t tokens = padded(max_sequence);
  // Keys, values, and the scores of four rows.
  stride_ = tokens * (2 * padded(head_dim) + 4);
  buffer_ = AlignedBuffer(static_cast<size_t>(stride_ * num_threads) * sizeof(float));
}

void encoder_attention(const EncoderRows& rows, std::span<const RowRange> sequences,
                       const EncoderHeads& heads, EncoderAttentionScratch& scratch,
                       ComputePool& pool) noexcept {
  const RowsView& qkv = rows.qkv;
  const RowsView& out = rows.out;
  const int64_t hidden = int64_t{heads.num_heads} * heads.head_dim;
  for (const RowRange& sequence : sequences) {
    PAGODA_CHECK(sequence.count <= scratch.max_sequence(), "{} tokens of {}", sequence.count,
                 scratch.max_sequence());
  }
  const auto tasks = static_cast<int>(sequences.size()) * heads.num_heads;
  pool.run(tasks, [&](int task, int worker) {
    const RowRange& sequence = sequences[static_cast<size_t>(task / heads.num_heads)];
    const int64_t column = int64_t{task % heads.num_heads} * heads.head_dim;
    EncoderAttentionHead head = {};
    head.q = qkv.row(sequence.first) + column;
    head.k = head.q + hidden;
    head.v = head.k + hidden;
    head.stride = qkv.stride;
    head.out = out.row(sequence.first) + column;
    head.out_stride = out.stride;
    head.tokens = sequence.count;
    head.head_dim = heads.head_dim;
    head.scale = heads.scale;
    head.scratch = scratch.of(worker);
    body().attend(head);
  });
}

}  // namespace pagoda::kernels
