#include "quantize/gptq.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "quantize/cholesky.h"

namespace pagoda::quantize {
namespace {

constexpr float kDamping = 0.01f;  // of the mean diagonal, as in the paper's section 3.3
// Columns whose errors are applied to the rest at once (the paper's B).
constexpr int64_t kBlock = 128;

Dense reordered(const Dense& h, const std::vector<int32_t>& order) {
  Dense out(h.rows(), h.rows());
  for (int64_t i = 0; i < h.rows(); ++i) {
    const float* const from = h.row(order[static_cast<size_t>(i)]);
    for (int64_t j = 0; j < h.rows(); ++j) out.at(i, j) = from[order[static_cast<size_t>(j)]];
  }
  return out;
}

class Rounding {
 public:
  Rounding(const float* values, const CodedShape& shape, const GptqInput& input, Grouping grouping,
           ComputePool& pool)
      : input_(input),
        grouping_(grouping),
        pool_(pool),
        coded_(shape),
        work_(shape.rows, shape.depth),
        errors_(shape.rows, kBlock) {
    pool_.run(static_cast<int>(shape.rows), [&](int row, int) { take_row(values + row * shape.depth, row); });
    if (grouping == Grouping::kNeighbours) return;
    for (int64_t j = 0; j < shape.depth; ++j) {
      coded_.group_of[column(j)] = static_cast<int32_t>(j / shape.group_size);
    }
  }

  CodedMatrix run() {
    const int64_t depth = coded_.shape.depth;
    for (int64_t first = 0; first < depth; first += kBlock) {
      const int64_t size = std::min(kBlock, depth - first);
      pool_.run(static_cast<int>(coded_.shape.rows), [&](int row, int) { round_block(row, first, size); });
      if (first + size < depth) spread(first, size);
    }
    return std::move(coded_);
  }

 private:
  size_t column(int64_t j) const { return static_cast<size_t>(input_.order()[static_cast<size_t>(j)]); }

  void take_row(const float* values, int64_t row) {
    const CodedShape& shape = coded_.shape;
    std::vector<float> alive(values, values + shape.depth);
    for (size_t k = 0; k < alive.size(); ++k) {
      if (input_.importance()[k] <= 0) alive[k] = 0;
    }
    for (int64_t j = 0; j < shape.depth; ++j) work_.at(row, j) = alive[column(j)];
    if (grouping_ == Grouping::kActOrder) return;
    const auto size = static_cast<size_t>(shape.group_size);
    for (int64_t group = 0; group < shape.groups(); ++group) {
      const size_t first = static_cast<size_t>(group) * size;
      coded_.grid(row, group) = fit_grid_to(std::span(alive).subspan(first, size),
                                            std::span(input_.importance()).subspan(first, size), shape.grid);
    }
  }

  // The grid of the group that begins at place j.
  Grid grid_of_rest(int64_t row, int64_t j) const {
    const auto size = static_cast<size_t>(coded_.shape.group_size);
    std::vector<float> importance(size);
    for (size_t i = 0; i < size; ++i)
      importance[i] = input_.importance()[column(j + static_cast<int64_t>(i))];
    return fit_grid_to({work_.row(row) + j, size}, importance, coded_.shape.grid);
  }

  // Rounds columns [first, first + size) of a row.
  void round_block(int64_t row, int64_t first, int64_t size) {
    const CodedShape& shape = coded_.shape;
    float* const w = work_.row(row);
    for (int64_t j = first; j < first + size; ++j) {
      const int64_t group = coded_.group_of[column(j)];
      // Groups wider than a block lack the errors of blocks to come, as in the authors' code.
      if (grouping_ == Grouping::kActOrder && j % shape.group_size == 0) {
        coded_.grid(row, group) = grid_of_rest(row, j);
      }
      const Grid& grid = coded_.grid(row, group);
      const uint8_t code = round_to_grid(w[j], grid, shape.grid.bits);
      coded_.row_codes(row)[column(j)] = code;
      const float* const u = input_.factor().row(j);
      const float error = (w[j] - grid_value(code, grid)) / u[j];
      errors_.at(row, j - first) = error;
      for (int64_t k = j + 1; k < first + size; ++k) w[k] -= error * u[k];
    }
  }

  // Takes the block's errors to all columns behind it: work -= errors * U[block, behind].
  void spread(int64_t first, int64_t size) {
    const int64_t begin = first + size, behind = coded_.shape.depth - begin;
    Dense transposed(behind, size);
    for (int64_t i = 0; i < size; ++i) {
      const float* const u = input_.factor().row(first + i);
      for (int64_t k = 0; k < behind; ++k) transposed.at(k, i) = u[begin + k];
    }
    multiply(std::as_const(errors_).part(0, coded_.shape.rows, 0, size), std::as_const(transposed).view(),
             {-1.0f, true}, work_.part(0, coded_.shape.rows, begin, behind), pool_);
  }

  const GptqInput& input_;
  Grouping grouping_;
  ComputePool& pool_;
  CodedMatrix coded_;
  Dense work_;    // weights that are still to be rounded, in that order
  Dense errors_;  // of a block
};

}  // namespace

GptqInput::GptqInput(Dense hessian, ComputePool& pool) : order_(static_cast<size_t>(hessian.rows())) {
  const int64_t n = hessian.rows();
  double trace = 0;
  for (int64_t i = 0; i < n; ++i) {
    importance_.push_back(std::max(0.0f, hessian.at(i, i)));
    if (importance_.back() == 0) hessian.at(i, i) = 1.0f;
    trace += double{hessian.at(i, i)};
  }
  std::iota(order_.begin(), order_.end(), 0);
  std::stable_sort(order_.begin(), order_.end(),
                   [&](int32_t a, int32_t b) { return hessian.at(a, a) > hessian.at(b, b); });
  hessian = reordered(hessian, order_);
  // More damping where float32 does not do: inputs with outliers have a wide spectrum.
  for (float damping = kDamping; factor_.rows() == 0; damping *= 10) {
    PAGODA_CHECK(damping < 1e6f, "a Hessian of {} columns has no factor", n);
    Dense damped(n, n);
    for (int64_t i = 0; i < n; ++i) {
      std::copy_n(hessian.row(i), n, damped.row(i));
      damped.at(i, i) += damping * static_cast<float>(trace / static_cast<double>(n));
    }
    factor_ = upper_factor_of_inverse(std::move(damped), pool);
  }
}

CodedMatrix gptq(const float* values, const CodedShape& shape, const GptqInput& input, Grouping grouping,
                 ComputePool& pool) {
  return Rounding(values, shape, input, grouping, pool).run();
}

}  // namespace pagoda::quantize
