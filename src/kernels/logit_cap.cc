#include "kernels/logit_cap.h"

#include "kernels/chunks.h"
#include "kernels/dispatch.h"

namespace pagoda::kernels {

void cap_logits(RowsView x, const LogitCap& cap, ComputePool& pool) noexcept {
  const LogitCapBody& body = pick(scalar::logit_cap_body, avx2::logit_cap_body, avx512::logit_cap_body);
  constexpr int64_t kPiece = 4096;  // a few microseconds; a row may be the only one
  const int64_t pieces = (x.width + kPiece - 1) / kPiece, total = x.rows * pieces;
  const int chunks = chunk_count(static_cast<double>(x.rows * x.width), total, pool.num_threads());
  pool.run(chunks, [&](int chunk, int) {
    const auto [begin, end] = chunk_range(total, chunks, chunk);
    for (int64_t index = begin; index < end; ++index) {
      const int64_t at = index % pieces * kPiece;
      float* const piece = x.row(index / pieces) + at;
      const int64_t count = std::min(kPiece, x.width - at);
      cap.cap == 0 ? body.scale(piece, cap.scale, count) : body.cap(piece, cap.scale, cap.cap, count);
    }
  });
}

}  // namespace pagoda::kernels
