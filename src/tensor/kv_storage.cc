#include "tensor/kv_storage.h"

#include <cstring>

#include "base/check.h"

namespace pagoda {
namespace {

size_t layer_block_bytes(const KvShape& shape) {
  return size_t{2} * kKvBlockTokens * static_cast<size_t>(shape.head_dim) *
         static_cast<size_t>(shape.num_kv_heads) * dtype_bytes(shape.dtype);
}

}  // namespace

size_t kv_block_bytes(const KvShape& shape) {
  return layer_block_bytes(shape) * static_cast<size_t>(shape.num_layers);
}

KvStorage::KvStorage(const KvShape& shape, int num_blocks)
    : shape_(shape),
      num_blocks_(num_blocks),
      block_bytes_(layer_block_bytes(shape)),
      data_(kv_block_bytes(shape) * static_cast<size_t>(num_blocks)) {
  PAGODA_CHECK(shape.head_dim % 2 == 0, "head_dim {} is odd", shape.head_dim);
  PAGODA_CHECK(shape.dtype == DType::kF32 || shape.dtype == DType::kBF16);
}

PagedKvView KvStorage::layer(int index) noexcept {
  PagedKvView view;
  view.base = data_.data() + static_cast<size_t>(index) * static_cast<size_t>(num_blocks_) * block_bytes_;
  view.block_stride = block_bytes_;
  view.head_stride = block_bytes_ / static_cast<size_t>(shape_.num_kv_heads);
  view.num_kv_heads = shape_.num_kv_heads;
  view.head_dim = shape_.head_dim;
  view.dtype = shape_.dtype;
  return view;
}

void KvStorage::copy_block(BlockId from, BlockId to) noexcept {
  for (int index = 0; index < shape_.num_layers; ++index) {
    const PagedKvView view = layer(index);
    std::memcpy(view.k(to, 0), view.k(from, 0), block_bytes_);
  }
}

}  // namespace pagoda
