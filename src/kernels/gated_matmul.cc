#include "kernels/gated_matmul.h"

#include "base/check.h"
#include "kernels/chunks.h"
#include "kernels/dispatch.h"
#include "kernels/matmul_internal.h"

namespace pagoda::kernels {
namespace {

// The product of one panel of `rows` into `out`, [x.rows, 32].
void run_panel(const Activations& x, const PanelRows& rows, int64_t panel, float* out) {
  const int64_t index = rows.first_panel + panel;
  MatmulJob job;
  job.weight = rows.weight;
  // A job's bias and output are those of the weight's first row.
  job.bias = rows.bias == nullptr ? nullptr : rows.bias - rows.first_panel * kPanelRows;
  job.out = out - index * kPanelRows;
  job.out_stride = kPanelRows;
  run_panels(x, job, index, index + 1);
}

void check_rows(const Activations& x, const PanelRows& rows, int64_t size) {
  PAGODA_CHECK(rows.weight != nullptr && x.form == activation_form(rows.weight->layout()) &&
                   x.depth == rows.weight->padded_depth() &&
                   rows.first_panel * kPanelRows + size <= rows.weight->rows(),
               "{} rows from panel {} on", size, rows.first_panel);
}

}  // namespace

GatedScratch::GatedScratch(int64_t max_rows, int num_threads)
    : max_rows_(max_rows),
      buffer_(static_cast<size_t>(2 * num_threads * max_rows * kPanelRows) * sizeof(float)) {}

void gated_matmul(const Activations& x, const GatedProduct& product, ActivationBuffer& out,
                  GatedScratch& scratch, ComputePool& pool) noexcept {
  if (x.rows == 0) return;
  PAGODA_CHECK(product.size % kPanelRows == 0 && x.rows <= scratch.max_rows(), "{} columns, {} rows of {}",
               product.size, x.rows, scratch.max_rows());
  check_rows(x, product.gate, product.size);
  check_rows(x, product.up, product.size);
  const int64_t panels = product.size / kPanelRows;
  constexpr double kActivationNs = 0.8;  // one value through activation and conversion
  const double pair_ns = panel_ns(x, *product.gate.weight) + panel_ns(x, *product.up.weight) +
                         kActivationNs * static_cast<double>(x.rows * kPanelRows);
  const ShrinkingChunks chunks(pair_ns * static_cast<double>(panels), panels, pool.num_threads());
  pool.run(chunks.count(), [&](int chunk, int worker) {
    const auto [begin, end] = chunks.range(chunk);
    float* const gate = scratch.gate(worker);
    float* const up = scratch.up(worker);
    for (int64_t panel = begin; panel < end; ++panel) {
      run_panel(x, product.gate, panel, gate);
      run_panel(x, product.up, panel, up);
      gated_activation_row(product.activation, gate, up, x.rows * kPanelRows, gate);
      out.write_group(panel, gate);
    }
  });
  out.finish(pool);
}

}  // namespace pagoda::kernels
