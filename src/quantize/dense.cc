#include "quantize/dense.h"

#include <algorithm>
#include <span>
#include <utility>

#include "kernels/matmul.h"
#include "tensor/packed_weight.h"

namespace pagoda::quantize {
namespace {

PackedWeight pack(kernels::ConstRowsView b, ComputePool& pool) {
  PackedWeightSpec spec;
  spec.rows = b.rows;
  spec.depth = b.width;
  PackedWeight weight(spec);
  pool.run(static_cast<int>(weight.num_panels()), [&](int panel, int) {
    PanelSource source;
    const int64_t first = int64_t{panel} * kPanelRows;
    source.num_rows = static_cast<int>(std::min<int64_t>(kPanelRows, b.rows - first));
    source.values = b.row(first);
    source.value_stride = b.stride;
    weight.pack_panel(panel, source);
  });
  return weight;
}

}  // namespace

Dense::Dense(int64_t rows, int64_t columns)
    : rows_(rows),
      columns_(columns),
      stride_(round_up(columns, kPanelRows)),
      data_(static_cast<size_t>(rows_ * stride_) * sizeof(float)) {}

void multiply(kernels::ConstRowsView a, kernels::ConstRowsView b, const Product& product,
              kernels::RowsView out, ComputePool& pool) {
  const PackedWeight weight = pack(b, pool);
  Dense input(a.rows, a.width);
  pool.run(static_cast<int>(a.rows), [&](int row, int) {
    const float* const from = a.row(row);
    float* const to = input.row(row);
    for (int64_t k = 0; k < a.width; ++k) to[k] = product.factor * from[k];
  });
  kernels::Activations x;
  x.rows = a.rows;
  x.depth = input.stride();
  x.f32 = input.row(0);
  kernels::MatmulJob job;
  job.weight = &weight;
  job.out = out.data;
  job.out_stride = out.stride;
  job.accumulate = product.accumulate;
  kernels::matmul(x, std::span(&job, 1), pool);
}

}  // namespace pagoda::quantize
