// The one body of LayerNorm, in portable vectors; every tier's layer_norm.cc includes it inside its own
// anonymous namespace. No include guard: the includer's namespace is part of it.
#include "kernels/portable_vector.h"

LayerStatistics statistics(const float* x, int64_t size, float eps) {
  Vec sum = {}, squares = {}, v;
  for (int64_t i = 0; i < size; i += 16) {
    load_up_to(x + i, size - i, 0.0f, v);
    sum += v;
  }
  const float mean = sum_of(sum) / static_cast<float>(size);
  for (int64_t i = 0; i < size; i += 16) {
    load_up_to(x + i, size - i, mean, v);
    v -= mean;
    squares += v * v;
  }
  const float variance = sum_of(squares) / static_cast<float>(size);
  return {mean, 1.0f / __builtin_sqrtf(variance + eps)};
}

void apply(const float* x, const LayerNormPiece& piece, int64_t size, float* y) {
  Vec v, w, b;
  for (int64_t i = 0; i < size; i += 16) {
    load_up_to(x + i, size - i, 0.0f, v);
    load_up_to(piece.weight + i, size - i, 0.0f, w);
    load_up_to(piece.bias + i, size - i, 0.0f, b);
    store_up_to(y + i, size - i, (v - piece.row.mean) * piece.row.factor * w + b);
  }
}

#undef PAGODA_BODY
