// The memory behind the KV blocks, and the view that the attention kernels read.
//
// One block holds kKvBlockTokens consecutive tokens of one sequence, for every layer and kv head:
//   K  transposed, one vector lane a token:  kF32, kF16 [head_dim][16];  kBF16, kI8 [head_dim / 2][16][2]
//   V  by token:                             kF32, kF16, kBF16 [16][head_dim];  kI8 [8][head_dim][2]
// kI8: codes -127..127, value = code * scale, one scale for each token and head of K and another for V;
// behind the codes of K and behind those of V lie the float scales [16] of the tokens. Prefill and decode
// read the same bytes in the same order (DESIGN.md section 4).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/ids.h"
#include "tensor/aligned_buffer.h"
#include "tensor/dtype.h"

namespace pagoda {

inline constexpr int kKvBlockTokens = 16;

struct KvShape {
  int num_layers = 0;
  int num_kv_heads = 0;
  int head_dim = 0;  // even
  DType dtype = DType::kBF16;
};

// The sums over the dimensions of a head of int8 codes are exact in 32 bits up to here:
// 512 * 127 * 32767 < 2^31.
inline constexpr int kMaxInt8HeadDim = 512;

// Bytes of one block over all layers and heads, with what is left free for the sake of the caches.
size_t kv_block_bytes(const KvShape& shape);

// One layer of the cache as a kernel sees it.
struct PagedKvView {
  uint8_t* base = nullptr;  // block b of this layer: base + b * block_stride
  size_t block_stride = 0;  // bytes from a block to the next, over all layers
  size_t head_stride = 0;   // bytes between kv heads inside a block; K first, V at + head_stride / 2
  int num_kv_heads = 0;
  int head_dim = 0;
  DType dtype = DType::kBF16;

  uint8_t* k(BlockId block, int head) const noexcept {
    return base + static_cast<size_t>(block.value) * block_stride + static_cast<size_t>(head) * head_stride;
  }
  uint8_t* v(BlockId block, int head) const noexcept { return k(block, head) + head_stride / 2; }
  // kI8: the scales of a block's K or V.
  float* scales(uint8_t* k_or_v) const noexcept {
    return reinterpret_cast<float*>(k_or_v + static_cast<size_t>(head_dim) * kKvBlockTokens);
  }
};

// Owns the zero-filled memory of all blocks. Blocks are addressed by id; who owns which block is kv's
// business.
class KvStorage {
 public:
  KvStorage() = default;
  KvStorage(const KvShape& shape, int num_blocks);

  const KvShape& shape() const noexcept { return shape_; }
  int num_blocks() const noexcept { return num_blocks_; }
  size_t bytes() const noexcept { return data_.size(); }
  PagedKvView layer(int index) noexcept;
  // Takes these bytes from the system; block b begins at b * kv_block_bytes(). May run beside anything else.
  // False where the kernel can't.
  bool populate(size_t begin, size_t size) noexcept { return data_.populate(begin, size); }
  // Copies all layers and heads of one block (copy-on-write after a fork).
  void copy_block(BlockId from, BlockId to) noexcept;

 private:
  KvShape shape_;
  int num_blocks_ = 0;
  size_t block_bytes_ = 0;
  // [block][layer][head][K, V]: memory is touched, and zeroed by the system, as blocks are used and not a
  // page for every layer at once.
  AlignedBuffer data_;
};

}  // namespace pagoda
