// Attention of new tokens over a paged KV cache: out = softmax(scale * q K^T) V per token and head, causal.
// Source: Kwon et al. 2023 (PagedAttention) section 4; merging of partial softmaxes: Milakov and Gimelshein
// 2018.
//
// A token at position p attends to positions max(0, p - window + 1) .. p of its sequence. The KV range is cut
// at multiples of kKvPartition tokens, counted from position 0; inside a partition: scores, maximum, exp,
// sum, weighted values; partitions are merged in ascending order. A token's result therefore depends on its
// position and its sequence alone: not on the batch, the chunk it came in, or how partitions were spread over
// threads. Slots after the token's own position are never read (they may hold anything).
#pragma once

#include <cstdint>
#include <span>

#include "base/ids.h"
#include "base/thread_pool.h"
#include "kernels/activations.h"
#include "kernels/attention_sequence.h"
#include "kernels/rows.h"
#include "kernels/shared_prefixes.h"
#include "tensor/aligned_buffer.h"
#include "tensor/kv_storage.h"

namespace pagoda::kernels {

struct AttentionParams {
  int num_heads = 0;     // q heads; a multiple of kv.num_kv_heads
  float scale = 1.0f;    // multiplies q . k
  int64_t window = 0;    // sliding window in tokens, the token itself included; 0 = no limit
  float softcap = 0.0f;  // s = softcap * tanh(s / softcap) before the mask; 0 = off (Gemma 2)
};

// Scratch of one call: a work area per thread, and room for partial results when few sequences are spread
// over many threads. Allocated once, by the constructor. Move-only.
class AttentionScratch {
 public:
  AttentionScratch() = default;
  // Enough for steps of any number of tokens over contexts of max_context tokens. Where more partial results
  // would be needed than fit (max_tokens is small then as a rule), attention() does not split a sequence:
  // same result, later.
  AttentionScratch(int64_t max_tokens, int64_t max_context, int num_heads, int head_dim, int num_threads);

  int num_threads() const noexcept { return num_threads_; }
  int max_rows() const noexcept { return max_rows_; }  // (token, head) pairs of one work item
  int head_dim() const noexcept { return head_dim_; }
  uint8_t* worker_area(int worker) noexcept {
    return buffer_.data() + static_cast<size_t>(worker) * worker_bytes_;
  }
  float* partials() noexcept { return partials_.as<float>(); }
  int64_t partial_floats() const noexcept { return static_cast<int64_t>(partials_.size() / sizeof(float)); }

 private:
  int num_threads_ = 0, max_rows_ = 0, head_dim_ = 0;
  size_t worker_bytes_ = 0;
  AlignedBuffer buffer_, partials_;
};

// Writes the key and value of one token, [kv heads * head_dim] each, into its slot, on the calling thread.
// Rounds to the cache's type to nearest even; the codes of int8 are relative to the head's largest value.
struct KeyValue {
  const float *k, *v;
};
void write_kv_token(const KeyValue& token, int64_t position, std::span<const BlockId> block_table,
                    const PagedKvView& kv) noexcept;

// The same for all new tokens. k, v: [num_tokens, kv heads * head_dim].
void write_kv(ConstRowsView k, ConstRowsView v, std::span<const AttentionSequence> sequences, PagedKvView kv,
              ComputePool& pool) noexcept;

// What the attention of one layer reads.
struct AttentionInput {
  ConstRowsView q;  // [num_tokens, num_heads * head_dim]
  std::span<const AttentionSequence> sequences;
  PagedKvView kv;
  // What find() said about these sequences, or null: each reads its own cache then. Not used with a window.
  const SharedPrefixes* shared = nullptr;
};

// Where the result goes, of the shape of q and not aliasing it: into `rows`, or if `converted` is set
// straight into the form of the next product. It must have been begun for the rows, and head_dim be a
// multiple of 32.
struct AttentionOutput {
  RowsView rows;
  ActivationBuffer* converted = nullptr;
};

// write_kv for these tokens must have run. No allocation.
void attention(const AttentionInput& input, const AttentionParams& params, const AttentionOutput& out,
               AttentionScratch& scratch, ComputePool& pool) noexcept;

}  // namespace pagoda::kernels
