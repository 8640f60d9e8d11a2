#include "kernels/norm.h"

#include <cmath>

#include "kernels/chunks.h"
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

}  // namespace

void rms_norm_row(const float* x, const RmsNorm& norm, int64_t size, float* y) noexcept {
  body().scale_row(x, norm.weight, norm_factor(x, norm.eps, size), size, y);
}

void rms_norm_convert(ConstRowsView x, const RmsNorm& norm, const ActivationSpec& spec, ActivationBuffer& out,
                      ComputePool& pool) noexcept {
  out.begin(spec, x.rows, x.width);
  const int chunks = chunk_count(static_cast<double>(x.rows * x.width) * 0.25, x.rows, pool.num_threads());
  pool.run(chunks, [&](int chunk, int) {
    const auto [begin, end] = chunk_range(x.rows, chunks, chunk);
    alignas(64) float piece[kRowPiece];
    for (int64_t row = begin; row < end; ++row) {
      const float* const in = x.row(row);
      const float factor = norm_factor(in, norm.eps, x.width);
      for (int64_t at = 0; at < x.width; at += kRowPiece) {
        const int64_t count = std::min<int64_t>(kRowPiece, x.width - at);
        body().scale_row(in + at, norm.weight + at, factor, count, piece);
        out.write_columns(row, at, piece, count);
      }
    }
  });
}

}  // namespace pagoda::kernels
