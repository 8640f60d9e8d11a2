#include "kernels/shared_prefixes.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/attention_internal.h"

namespace pagoda::kernels {
namespace {

constexpr int64_t kBlocksPerPartition = kKvPartition / kKvBlockTokens;

bool can_share(const AttentionSequence& s) {
  return s.num_tokens == 1 && s.first_position >= kKvPartition;
}

// Leading partitions with equal blocks, among those that end before the new token of either.
int64_t common_partitions(const AttentionSequence& a, const AttentionSequence& b) {
  const int64_t most = std::min(a.first_position, b.first_position) / kKvPartition;
  int64_t count = 0;
  for (; count < most; ++count) {
    const auto first = static_cast<size_t>(count * kBlocksPerPartition);
    const auto blocks = [&](const AttentionSequence& s) {
      return s.block_table.subspan(first, kBlocksPerPartition);
    };
    if (!std::ranges::equal(blocks(a), blocks(b))) break;
  }
  return count;
}

}  // namespace

SharedPrefixes::SharedPrefixes(int64_t max_tokens, int num_heads, int head_dim)
    : num_heads_(num_heads),
      record_(value_stride(head_dim) + kStateFloats),
      states_(static_cast<size_t>(max_tokens * num_heads * record_) * sizeof(float)) {
  partitions_.reserve(static_cast<size_t>(max_tokens));
  members_.reserve(static_cast<size_t>(max_tokens));
  groups_.reserve(static_cast<size_t>(max_tokens));
}

void SharedPrefixes::find(std::span<const AttentionSequence> sequences) noexcept {
  PAGODA_CHECK(sequences.size() <= partitions_.capacity(), "{} sequences, room for {}", sequences.size(),
               partitions_.capacity());
  partitions_.assign(sequences.size(), 0);
  members_.clear();
  groups_.clear();
  for (size_t leader = 0; leader < sequences.size(); ++leader) {
    if (partitions_[leader] > 0 || !can_share(sequences[leader])) continue;
    const size_t first = members_.size();
    int64_t shared = sequences[leader].first_position / kKvPartition;
    members_.push_back(static_cast<int32_t>(leader));
    for (size_t other = leader + 1; other < sequences.size(); ++other) {
      if (partitions_[other] > 0 || !can_share(sequences[other])) continue;
      const int64_t common = common_partitions(sequences[leader], sequences[other]);
      if (common == 0) continue;
      shared = std::min(shared, common);
      members_.push_back(static_cast<int32_t>(other));
      partitions_[other] = common;  // a mark; set below
    }
    if (members_.size() == first + 1) {
      members_.pop_back();
      continue;
    }
    const std::span<const int32_t> members(members_.data() + first, members_.size() - first);
    for (const int32_t member : members) partitions_[static_cast<size_t>(member)] = shared;
    groups_.push_back({members, shared});
  }
}

float* SharedPrefixes::state(int64_t sequence, int head) const noexcept {
  return const_cast<float*>(states_.as<float>()) + (sequence * num_heads_ + head) * record_;
}

}  // namespace pagoda::kernels
