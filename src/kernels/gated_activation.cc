#include "kernels/gated_activation.h"

#include "kernels/chunks.h"
#include "kernels/dispatch.h"

namespace pagoda::kernels {

void gated_activation_row(GatedActivation kind, const float* gate, const float* up, int64_t size,
                          float* y) noexcept {
  const GatedBody& body = pick(scalar::gated_body, avx2::gated_body, avx512::gated_body);
  (kind == GatedActivation::kSilu ? body.silu : body.gelu_tanh)(gate, up, size, y);
}

void gated_activation_convert(GatedActivation kind, const GateAndUp& x, const ActivationSpec& spec,
                              ActivationBuffer& out, ComputePool& pool) noexcept {
  const int64_t rows = x.gate.rows, size = x.gate.width;
  out.begin(spec, rows, size);
  const int chunks = chunk_count(static_cast<double>(rows * size) * 0.6, rows, pool.num_threads());
  pool.run(chunks, [&](int chunk, int) {
    const auto [begin, end] = chunk_range(rows, chunks, chunk);
    alignas(64) float piece[kRowPiece];
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t at = 0; at < size; at += kRowPiece) {
        const int64_t count = std::min<int64_t>(kRowPiece, size - at);
        gated_activation_row(kind, x.gate.row(row) + at, x.up.row(row) + at, count, piece);
        out.write_columns(row, at, piece, count);
      }
      out.finish_row(row);
    }
  });
}

}  // namespace pagoda::kernels
