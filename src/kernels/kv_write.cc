#include <algorithm>
#include <cstring>

#include "kernels/attention.h"
#include "kernels/chunks.h"
#include "kernels/dispatch.h"

namespace pagoda::kernels {
namespace {

// One token of one kv head in its slot of the block.
void write_slot_f32(const float* k, const float* v, int head_dim, int slot, uint8_t* k_block,
                    uint8_t* v_block) {
  auto* const keys = reinterpret_cast<float*>(k_block);
  for (int d = 0; d < head_dim; ++d) keys[d * kKvBlockTokens + slot] = k[d];
  std::memcpy(v_block + static_cast<size_t>(slot) * static_cast<size_t>(head_dim) * 4, v,
              static_cast<size_t>(head_dim) * 4);
}

void write_slot_bf16(const float* k, const float* v, int head_dim, int slot, uint8_t* k_block,
                     uint8_t* v_block) {
  const ActivationBody& body = pick(scalar::activation_body, avx2::activation_body, avx512::activation_body);
  auto* const keys = reinterpret_cast<uint32_t*>(k_block);  // a pair of dimensions
  body.round_bf16(v, head_dim, reinterpret_cast<uint16_t*>(v_block) + static_cast<int64_t>(slot) * head_dim);
  alignas(64) uint16_t piece[kRowPiece];
  for (int first = 0; first < head_dim; first += static_cast<int>(kRowPiece)) {
    const int count = std::min(static_cast<int>(kRowPiece), head_dim - first);
    body.round_bf16(k + first, count, piece);
    for (int pair = 0; pair < count / 2; ++pair) {
      std::memcpy(keys + (first / 2 + pair) * kKvBlockTokens + slot, piece + 2 * pair, sizeof(uint32_t));
    }
  }
}

}  // namespace

void write_kv_token(const KeyValue& token, int64_t position, std::span<const BlockId> block_table,
                    const PagedKvView& kv) noexcept {
  const BlockId block = block_table[static_cast<size_t>(position / kKvBlockTokens)];
  const int slot = static_cast<int>(position % kKvBlockTokens);
  for (int head = 0; head < kv.num_kv_heads; ++head) {
    const int64_t at = int64_t{head} * kv.head_dim;
    (kv.dtype == DType::kF32 ? write_slot_f32 : write_slot_bf16)(token.k + at, token.v + at, kv.head_dim,
                                                                 slot, kv.k(block, head), kv.v(block, head));
  }
}

void write_kv(ConstRowsView k, ConstRowsView v, std::span<const AttentionSequence> sequences, PagedKvView kv,
              ComputePool& pool) noexcept {
  int64_t tokens = 0;
  for (const AttentionSequence& s : sequences) tokens += s.num_tokens;
  const double token_ns = 1.5 * kv.head_dim * kv.num_kv_heads;
  const int chunks = chunk_count(static_cast<double>(tokens) * token_ns, tokens, pool.num_threads());
  pool.run(chunks, [&](int chunk, int) {
    const auto [begin, end] = chunk_range(tokens, chunks, chunk);
    int64_t first = 0;
    for (const AttentionSequence& s : sequences) {
      const int64_t from = std::max<int64_t>(begin - first, 0), to = std::min(end - first, s.num_tokens);
      for (int64_t t = from; t < to; ++t) {
        write_kv_token({k.row(s.first_token + t), v.row(s.first_token + t)}, s.first_position + t,
                       s.block_table, kv);
      }
      first += s.num_tokens;
    }
  });
}

}  // namespace pagoda::kernels
