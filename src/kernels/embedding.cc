#include "kernels/embedding.h"

#include "base/check.h"
#include "kernels/chunks.h"
#include "kernels/dispatch.h"

namespace pagoda::kernels {

void embed(const PackedWeight& table, std::span<const TokenId> ids, float scale, RowsView out,
           ComputePool& pool) noexcept {
  const auto count = static_cast<int64_t>(ids.size());
  const int64_t depth = table.depth();
  for (const TokenId id : ids) {
    PAGODA_CHECK(id.value >= 0 && id.value < table.rows(), "token {} of {}", id.value, table.rows());
  }
  const int chunks = chunk_count(static_cast<double>(count * depth) * 4, count, pool.num_threads());
  pool.run(chunks, [&](int chunk, int) {
    const auto [begin, end] = chunk_range(count, chunks, chunk);
    for (int64_t t = begin; t < end; ++t) {
      float* const row = out.row(t);
      table.unpack_row(ids[static_cast<size_t>(t)].value, {row, static_cast<size_t>(depth)});
      for (int64_t k = 0; k < depth; ++k) row[k] *= scale;
    }
  });
}

}  // namespace pagoda::kernels
