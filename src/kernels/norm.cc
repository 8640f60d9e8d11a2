#include "kernels/norm.h"

#include <cmath>

#include "kernels/dispatch.h"

namespace pagoda::kernels {
namespace {

const NormBody& body() {
  return pick(scalar::norm_body, avx2::norm_body, avx512::norm_body);
}

float norm_factor(const float* x, float eps, int64_t size) {
  const float mean = body().sum_of_squares(x, size) / static_cast<float>(size);
  return 1.0f / std::sqrt(mean + eps);
}

int norm_chunks(int64_t rows, int64_t size, const ComputePool& pool) {
  return chunk_count(static_cast<double>(rows * size) * 0.25, rows, pool.num_threads());
}

}  // namespace

void rms_norm_row(const float* x, const float* weight, float eps, int64_t size, float* y) noexcept {
  body().scale_row(x, weight, norm_factor(x, eps, size), size, y);
}

void rms_norm(const float* x, int64_t x_stride, const float* weight, float eps, int64_t rows, int64_t size,
              float* y, int64_t y_stride, ComputePool& pool) noexcept {
  const int chunks = norm_chunks(rows, size, pool);
  pool.run(chunks, [&](int chunk, int) {
    const auto [begin, end] = chunk_range(rows, chunks, chunk);
    for (int64_t row = begin; row < end; ++row) {
      rms_norm_row(x + row * x_stride, weight, eps, size, y + row * y_stride);
    }
  });
}

void rms_norm_convert(const float* x, int64_t x_stride, const float* weight, float eps, int64_t rows,
                      int64_t size, ActivationForm form, ActivationBuffer& out, ComputePool& pool) noexcept {
  out.begin(form, rows, size);
  const int chunks = norm_chunks(rows, size, pool);
  pool.run(chunks, [&](int chunk, int) {
    const auto [begin, end] = chunk_range(rows, chunks, chunk);
    alignas(64) float piece[kRowPiece];
    for (int64_t row = begin; row < end; ++row) {
      const float* const in = x + row * x_stride;
      const float factor = norm_factor(in, eps, size);
      for (int64_t at = 0; at < size; at += kRowPiece) {
        const int64_t count = std::min<int64_t>(kRowPiece, size - at);
        body().scale_row(in + at, weight + at, factor, count, piece);
        out.write_columns(row, at, piece, count);
      }
    }
  });
}

}  // namespace pagoda::kernels
