#include "kernels/grouped_matmul.h"

#include "base/check.h"
#include "kernels/chunks.h"
#include "kernels/matmul_internal.h"

namespace pagoda::kernels {
namespace {

MatmulJob job_of(const GroupedJob& group, const RowsView& out) {
  MatmulJob job;
  job.weight = group.weight;
  job.out = out.row(group.first_row) + group.column;
  job.out_stride = out.stride;
  return job;
}

}  // namespace

void grouped_matmul(const Activations& x, std::span<const GroupedJob> jobs, RowsView out,
                    ComputePool& pool) noexcept {
  int64_t num_panels = 0;
  double total_ns = 0;
  for (const GroupedJob& group : jobs) {
    PAGODA_CHECK(group.rows >= 1 && group.first_row >= 0 && group.first_row + group.rows <= x.rows,
                 "rows {} + {} of {}", group.first_row, group.rows, x.rows);
    const Activations rows = x.slice(group.first_row, group.rows);
    check_job(rows, job_of(group, out));
    num_panels += group.weight->num_panels();
    total_ns += static_cast<double>(group.weight->num_panels()) * panel_ns(rows, *group.weight);
  }
  if (num_panels == 0) return;
  const ShrinkingChunks chunks(total_ns, num_panels, pool.num_threads());
  pool.run(chunks.count(), [&](int chunk, int) {
    // The panels of all jobs are numbered through.
    const auto [begin, end] = chunks.range(chunk);
    int64_t first = 0;
    for (const GroupedJob& group : jobs) {
      const int64_t count = group.weight->num_panels();
      const int64_t from = std::max<int64_t>(begin - first, 0), to = std::min(end - first, count);
      if (from < to) run_panels(x.slice(group.first_row, group.rows), job_of(group, out), from, to);
      first += count;
    }
  });
}

}  // namespace pagoda::kernels
