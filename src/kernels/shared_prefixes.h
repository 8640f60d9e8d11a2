// Which decoding sequences of a step start with the same KV blocks, so that attention reads those once for
// all of them. Source: cascade inference, Ye et al. 2025 (FlashInfer) section 3.1.2.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention_sequence.h"
#include "tensor/aligned_buffer.h"

namespace pagoda::kernels {

// Found once a step, used by every layer. A row's result does not depend on it: the shared partitions are
// computed and merged in the same order as for the sequence alone.
class SharedPrefixes {
 public:
  // Two or more sequences with one new token each.
  struct Group {
    std::span<const int32_t> members;  // indices of sequences, ascending
    int64_t partitions = 0;            // whole partitions of kKvPartition tokens that all of them share
  };

  SharedPrefixes() = default;
  // Room for steps of max_tokens tokens; find() and attention() do not allocate.
  SharedPrefixes(int64_t max_tokens, int num_heads, int head_dim);

  // Looks at the block tables of `sequences`, which must stay as they are until the step is over.
  void find(std::span<const AttentionSequence> sequences) noexcept;

  std::span<const Group> groups() const noexcept { return groups_; }
  // Partitions of a sequence that its group computes; 0 for most.
  int64_t shared_partitions(int64_t sequence) const noexcept {
    return partitions_[static_cast<size_t>(sequence)];
  }
  // Where the softmax of (sequence, q head) over the shared partitions is kept: value row, maximum, sum.
  float* state(int64_t sequence, int head) const noexcept;

 private:
  int num_heads_ = 0;
  int64_t record_ = 0;  // floats of one state
  std::vector<int64_t> partitions_;
  std::vector<int32_t> members_;
  std::vector<Group> groups_;
  AlignedBuffer states_;
};

}  // namespace pagoda::kernels
