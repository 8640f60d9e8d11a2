#include <algorithm>
#include <cstring>

#include "kernels/attention.h"
#include "kernels/chunks.h"
#include "kernels/dispatch.h"

namespace pagoda::kernels {
namespace {

const AttentionBody& attention_bodies() {
  return pick(scalar::attention_body, avx2::attention_body, avx512::attention_body);
}

// Where one token of one kv head goes.
struct Slot {
  int head_dim, slot;
  uint8_t *k_block, *v_block;  // of the head
};

void write_slot_f32(const KeyValue& head, const Slot& to) {
  const auto [head_dim, slot, k_block, v_block] = to;
  auto* const keys = reinterpret_cast<float*>(k_block);
  for (int d = 0; d < head_dim; ++d) keys[d * kKvBlockTokens + slot] = head.k[d];
  std::memcpy(v_block + static_cast<size_t>(slot) * static_cast<size_t>(head_dim) * 4, head.v,
              static_cast<size_t>(head_dim) * 4);
}

void write_slot_f16(const KeyValue& head, const Slot& to) {
  const auto [head_dim, slot, k_block, v_block] = to;
  const AttentionBody& body = attention_bodies();
  auto* const keys = reinterpret_cast<uint16_t*>(k_block);
  body.round_f16(head.v, head_dim,
                 reinterpret_cast<uint16_t*>(v_block) + static_cast<int64_t>(slot) * head_dim);
  alignas(64) uint16_t piece[kRowPiece];
  for (int first = 0; first < head_dim; first += static_cast<int>(kRowPiece)) {
    const int count = std::min(static_cast<int>(kRowPiece), head_dim - first);
    body.round_f16(head.k + first, count, piece);
    for (int d = 0; d < count; ++d) keys[(first + d) * kKvBlockTokens + slot] = piece[d];
  }
}

// Writes single bytes, since a thread may write the other token of a pair at the same time.
void write_slot_int8(const KeyValue& head, const Slot& to) {
  const auto [head_dim, slot, k_block, v_block] = to;
  constexpr float kLargestCode = 127;
  const AttentionBody& body = attention_bodies();
  const auto scale = [&, dim = head_dim, at = slot](uint8_t* block) {
    return block + static_cast<size_t>(dim) * kKvBlockTokens + static_cast<size_t>(at) * sizeof(float);
  };
  alignas(64) int16_t codes[kMaxInt8HeadDim];
  const float k_scale = body.quantize(head.k, head_dim, kLargestCode, codes);
  std::memcpy(scale(k_block), &k_scale, sizeof(float));
  for (int d = 0; d < head_dim; ++d) {
    k_block[(d / 2 * kKvBlockTokens + slot) * 2 + d % 2] = static_cast<uint8_t>(codes[d]);
  }
  const float v_scale = body.quantize(head.v, head_dim, kLargestCode, codes);
  std::memcpy(scale(v_block), &v_scale, sizeof(float));
  uint8_t* const values = v_block + slot / 2 * head_dim * 2 + slot % 2;
  for (int d = 0; d < head_dim; ++d) values[2 * d] = static_cast<uint8_t>(codes[d]);
}

void write_slot_bf16(const KeyValue& head, const Slot& to) {
  const auto [head_dim, slot, k_block, v_block] = to;
  const ActivationBody& body = pick(scalar::activation_body, avx2::activation_body, avx512::activation_body);
  auto* const keys = reinterpret_cast<uint32_t*>(k_block);  // a pair of dimensions
  body.round_bf16(head.v, head_dim,
                  reinterpret_cast<uint16_t*>(v_block) + static_cast<int64_t>(slot) * head_dim);
  alignas(64) uint16_t piece[kRowPiece];
  for (int first = 0; first < head_dim; first += static_cast<int>(kRowPiece)) {
    const int count = std::min(static_cast<int>(kRowPiece), head_dim - first);
    body.round_bf16(head.k + first, count, piece);
    for (int pair = 0; pair < count / 2; ++pair) {
      std::memcpy(keys + (first / 2 + pair) * kKvBlockTokens + slot, piece + 2 * pair, sizeof(uint32_t));
    }
  }
}

using WriteSlot = void (*)(const KeyValue&, const Slot&);

WriteSlot write_slot_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return write_slot_f32;
    case DType::kF16:
      return write_slot_f16;
    case DType::kBF16:
      return write_slot_bf16;
    case DType::kI8:
      break;
  }
  return write_slot_int8;
}

}  // namespace

void write_kv_token(const KeyValue& token, int64_t position, std::span<const BlockId> block_table,
                    const PagedKvView& kv) noexcept {
  const BlockId block = block_table[static_cast<size_t>(position / kKvBlockTokens)];
  const int slot = static_cast<int>(position % kKvBlockTokens);
  const WriteSlot write_slot = write_slot_of(kv.dtype);
  for (int head = 0; head < kv.num_kv_heads; ++head) {
    const int64_t at = int64_t{head} * kv.head_dim;
    write_slot({token.k + at, token.v + at}, {kv.head_dim, slot, kv.k(block, head), kv.v(block, head)});
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
