#include "kernels/norm.h"

#include <cmath>

#include "kernels/chunks.h"
#include "kernels/dispatch.h"

namespace pagoda::kernels {
namespace {

const NormBody& rms_body() {
  return pick(scalar::norm_body, avx2::norm_body, avx512::norm_body);
}

const LayerNormBody& layer_body() {
  return pick(scalar::layer_norm_body, avx2::layer_norm_body, avx512::layer_norm_body);
}

// A norm applied to one row, in pieces.
class NormedRow {
 public:
  NormedRow(const float* x, const Norm& norm, int64_t size) noexcept : x_(x), norm_(norm) {
    if (norm.kind == NormKind::kLayer) {
      row_ = layer_body().statistics(x, size, norm.eps);
    } else {
      const float mean = rms_body().sum_of_squares(x, size) / static_cast<float>(size);
      row_.factor = 1.0f / std::sqrt(mean + norm.eps);
    }
  }

  // Elements [at, at + count) into y.
  void write(int64_t at, int64_t count, float* y) const noexcept {
    if (norm_.kind == NormKind::kLayer) {
      layer_body().apply(x_ + at, {norm_.weight + at, norm_.bias + at, row_}, count, y);
    } else {
      rms_body().scale_row(x_ + at, norm_.weight + at, row_.factor, count, y);
    }
  }

 private:
  const float* x_;
  const Norm& norm_;
  LayerStatistics row_ = {};
};

}  // namespace

void norm_row(const float* x, const Norm& norm, int64_t size, float* y) noexcept {
  NormedRow(x, norm, size).write(0, size, y);
}

void norm_rows(RowsView x, const Norm& norm, ComputePool& pool) noexcept {
  const int chunks = chunk_count(static_cast<double>(x.rows * x.width) * 0.5, x.rows, pool.num_threads());
  pool.run(chunks, [&](int chunk, int) {
    const auto [begin, end] = chunk_range(x.rows, chunks, chunk);
    for (int64_t row = begin; row < end; ++row) norm_row(x.row(row), norm, x.width, x.row(row));
  });
}

void norm_convert(ConstRowsView x, const Norm& norm, const ActivationSpec& spec, ActivationBuffer& out,
                  ComputePool& pool) noexcept {
  out.begin(spec, x.rows, x.width);
  const int chunks = chunk_count(static_cast<double>(x.rows * x.width) * 0.25, x.rows, pool.num_threads());
  pool.run(chunks, [&](int chunk, int) {
    const auto [begin, end] = chunk_range(x.rows, chunks, chunk);
    alignas(64) float piece[kRowPiece];
    for (int64_t row = begin; row < end; ++row) {
      const NormedRow normed(x.row(row), norm, x.width);
      for (int64_t at = 0; at < x.width; at += kRowPiece) {
        const int64_t count = std::min<int64_t>(kRowPiece, x.width - at);
        normed.write(at, count, piece);
        out.write_columns(row, at, piece, count);
      }
      out.finish_row(row);
    }
  });
}

}  // namespace pagoda::kernels
