#include "kernels/gated_activation.h"

#include <algorithm>

#include "kernels/chunks.h"
#include "kernels/dispatch.h"

namespace pagoda::kernels {

void gated_activation_row(GatedActivation kind, const float* gate, const float* up, int64_t size,
                          float* y) noexcept {
  const GatedBody& body = pick(scalar::gated_body, avx2::gated_body, avx512::gated_body);
  (kind == GatedActivation::kSilu ? body.silu : body.gelu_tanh)(gate, up, size, y);
}

namespace {

// All rows of `size` columns, in pieces that stay in the first-level cache; compute(row, at, count, y) makes
// one.
template <class Compute>
void convert_pieces(int64_t rows, int64_t size, ActivationBuffer& out, ComputePool& pool,
                    const Compute& compute) {
  const int chunks = chunk_count(static_cast<double>(rows * size) * 0.6, rows, pool.num_threads());
  pool.run(chunks, [&](int chunk, int) {
    const auto [begin, end] = chunk_range(rows, chunks, chunk);
    alignas(64) float piece[kRowPiece];
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t at = 0; at < size; at += kRowPiece) {
        const int64_t count = std::min<int64_t>(kRowPiece, size - at);
        compute(row, at, count, piece);
        out.write_columns(row, at, piece, count);
      }
      out.finish_row(row);
    }
  });
}

}  // namespace

void gated_activation_convert(GatedActivation kind, const GateAndUp& x, const ActivationSpec& spec,
                              ActivationBuffer& out, ComputePool& pool) noexcept {
  out.begin(spec, x.gate.rows, x.gate.width);
  convert_pieces(x.gate.rows, x.gate.width, out, pool, [&](int64_t row, int64_t at, int64_t count, float* y) {
    gated_activation_row(kind, x.gate.row(row) + at, x.up.row(row) + at, count, y);
  });
}

void activation_convert(GatedActivation kind, ConstRowsView x, const ActivationSpec& spec,
                        ActivationBuffer& out, ComputePool& pool) noexcept {
  alignas(64) float ones[kRowPiece];
  std::fill_n(ones, kRowPiece, 1.0f);
  out.begin(spec, x.rows, x.width);
  convert_pieces(x.rows, x.width, out, pool, [&](int64_t row, int64_t at, int64_t count, float* y) {
    gated_activation_row(kind, x.row(row) + at, ones, count, y);  // times one is exact
  });
}

}  // namespace pagoda::kernels
