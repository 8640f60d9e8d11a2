#include "quantize/awq.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace pagoda::quantize {
namespace {

constexpr int kExponents = 20;  // as in the authors' code
// Rows of a matrix that are looked at, evenly spread: more hardly change which exponent is best.
constexpr int64_t kRowsLookedAt = 512;

std::vector<float> scales_of(const std::vector<float>& magnitudes, float alpha) {
  constexpr float kSmallest = 1e-4f, kLargest = 1e4f;
  std::vector<float> scales;
  for (const float magnitude : magnitudes) scales.push_back(std::pow(std::max(magnitude, kSmallest), alpha));
  const auto [low, high] = std::minmax_element(scales.begin(), scales.end());
  const float centre = std::sqrt(*low * *high);
  for (float& scale : scales) scale = std::clamp(scale / centre, kSmallest, kLargest);
  return scales;
}

// Errors of the rows looked at: rounded(w * s) / s - w.
Dense errors_of(const AwqMatrix& matrix, const std::vector<float>& scales, const CodedShape& shape,
                ComputePool& pool) {
  const int64_t count = std::min(kRowsLookedAt, matrix.rows), depth = shape.depth;
  Dense errors(count, depth);
  pool.run(static_cast<int>(count), [&](int row, int) {
    const float* const w = matrix.values + matrix.rows * row / count * depth;
    float* const error = errors.row(row);
    std::vector<float> scaled(static_cast<size_t>(shape.group_size));
    for (int64_t first = 0; first < depth; first += shape.group_size) {
      const float* const s = scales.data() + first;
      for (size_t i = 0; i < scaled.size(); ++i) scaled[i] = w[first + static_cast<int64_t>(i)] * s[i];
      const Grid grid = fit_grid(scaled, shape.grid);
      for (size_t i = 0; i < scaled.size(); ++i) {
        const float back = grid_value(round_to_grid(scaled[i], grid, shape.grid.bits), grid);
        error[first + static_cast<int64_t>(i)] = (back - scaled[i]) / s[i];
      }
    }
  });
  return errors;
}

double output_loss(const Dense& errors, const Dense& hessian, ComputePool& pool) {
  Dense product(errors.rows(), errors.columns());
  multiply(errors.view(), hessian.view(), {}, product.view(), pool);
  std::vector<double> sums(static_cast<size_t>(errors.rows()));
  pool.run(static_cast<int>(errors.rows()), [&](int row, int) {
    double sum = 0;
    for (int64_t k = 0; k < errors.columns(); ++k)
      sum += double{errors.at(row, k)} * double{product.at(row, k)};
    sums[static_cast<size_t>(row)] = sum;
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace

std::vector<float> awq_scales(std::span<const AwqMatrix> matrices, const AwqInput& input,
                              const CodedShape& shape, ComputePool& pool) {
  std::vector<float> best(input.magnitudes.size(), 1.0f);
  double least = 0;
  for (int i = 0; i < kExponents; ++i) {
    auto scales = scales_of(input.magnitudes, static_cast<float>(i) / kExponents);
    double loss = 0;
    for (const AwqMatrix& matrix : matrices) {
      // The rows looked at stand for all: a matrix counts by its rows.
      const double weight =
          static_cast<double>(matrix.rows) / static_cast<double>(std::min(kRowsLookedAt, matrix.rows));
      loss += weight * output_loss(errors_of(matrix, scales, shape, pool), input.hessian, pool);
    }
    if (i > 0 && loss >= least) continue;
    least = loss;
    best = std::move(scales);
  }
  return best;
}

}  // namespace pagoda::quantize
