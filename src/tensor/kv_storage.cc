#include "tensor/kv_storage.h"

#include <cstring>

#include "base/check.h"

namespace pagoda {
namespace {

size_t head_bytes(const KvShape& shape) {
  const size_t scales = shape.dtype == DType::kI8 ? sizeof(float) : 0;
  return size_t{2} * kKvBlockTokens *
         (static_cast<size_t>(shape.head_dim) * dtype_bytes(shape.dtype) + scales);
}

}  // namespace

size_t kv_block_bytes(const KvShape& shape) {
  const size_t used =
      head_bytes(shape) * static_cast<size_t>(shape.num_layers) * static_cast<size_t>(shape.num_kv_heads);
  // The same layer and head of all blocks would lie a multiple of a large power of two apart, so that their
  // lines share few sets of a cache: one head's area is left free behind each block.
  constexpr size_t kBadStride = 16384;
  return used % kBadStride == 0 ? used + head_bytes(shape) : used;
}

KvStorage::KvStorage(const KvShape& shape, int num_blocks)
    : shape_(shape),
      num_blocks_(num_blocks),
      block_bytes_(kv_block_bytes(shape)),
      data_(block_bytes_ * static_cast<size_t>(num_blocks)) {
  PAGODA_CHECK(shape.head_dim % 2 == 0, "head_dim {} is odd", shape.head_dim);
  PAGODA_CHECK(shape.dtype != DType::kI8 || shape.head_dim <= kMaxInt8HeadDim, "head_dim {} of int8 codes",
               shape.head_dim);
}

PagedKvView KvStorage::layer(int index) noexcept {
  PagedKvView view;
  view.head_stride = head_bytes(shape_);
  view.base =
      data_.data() + static_cast<size_t>(index) * static_cast<size_t>(shape_.num_kv_heads) * view.head_stride;
  view.block_stride = block_bytes_;
  view.num_kv_heads = shape_.num_kv_heads;
  view.head_dim = shape_.head_dim;
  view.dtype = shape_.dtype;
  return view;
}

void KvStorage::copy_block(BlockId from, BlockId to) noexcept {
  const auto at = [&](BlockId block) {
    return data_.data() + static_cast<size_t>(block.value) * block_bytes_;
  };
  std::memcpy(at(to), at(from), block_bytes_);
}

}  // namespace pagoda
