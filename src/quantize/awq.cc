#include "quantize/awq.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace pagoda::quantize {
namespace {

constexpr int kExponents = 20;  // as in the authors' code
// Rows of a matrix that are looked at, evenly spread: more hardly change which exponent is best.
constexpr int64_t kRowsLookedAt = 512;

constexpr float kSmallest = 1e-4f, kLargest = 1e4f;

std::vector<float> scales_of(const AwqInput& input, float alpha) {
  std::vector<float> scales;
  for (size_t i = 0; i < input.magnitudes.size(); ++i) {
    const float magnitude = std::max(input.magnitudes[i], kSmallest);
    const float weight = std::max(input.weights[i], kSmallest);
    scales.push_back(std::pow(magnitude, alpha) / std::pow(weight, 1.0f - alpha));
  }
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

std::vector<float> relative_weights(std::span<const AwqMatrix> matrices, const CodedShape& shape) {
  std::vector<double> sums(static_cast<size_t>(shape.depth));
  double rows = 0;
  for (const AwqMatrix& matrix : matrices) {
    for (int64_t row = 0; row < matrix.rows; ++row) {
      for (int64_t first = 0; first < shape.depth; first += shape.group_size) {
        const std::span group(matrix.values + row * shape.depth + first,
                              static_cast<size_t>(shape.group_size));
        float largest = 0;
        for (const float w : group) largest = std::max(largest, std::fabs(w));
        if (largest == 0) continue;
        for (size_t i = 0; i < group.size(); ++i)
          sums[static_cast<size_t>(first) + i] += std::fabs(group[i]) / largest;
      }
    }
    rows += static_cast<double>(matrix.rows);
  }
  std::vector<float> means;
  for (const double sum : sums) means.push_back(static_cast<float>(sum / std::max(rows, 1.0)));
  return means;
}

std::vector<float> awq_scales(std::span<const AwqMatrix> matrices, const AwqInput& input,
                              const CodedShape& shape, ComputePool& pool) {
  const auto loss_of = [&](const std::vector<float>& scales) {
    double loss = 0;
    for (const AwqMatrix& matrix : matrices) {
      // The rows looked at stand for all: a matrix counts by its rows.
      const double weight =
          static_cast<double>(matrix.rows) / static_cast<double>(std::min(kRowsLookedAt, matrix.rows));
      loss += weight * output_loss(errors_of(matrix, scales, shape, pool), input.hessian, pool);
    }
    return loss;
  };
  std::vector<float> best(input.magnitudes.size(), 1.0f);
  double least = loss_of(best);
  for (int i = 0; i < kExponents; ++i) {
    auto scales = scales_of(input, static_cast<float>(i) / kExponents);
    const double loss = loss_of(scales);
    if (loss >= least) continue;
    least = loss;
    best = std::move(scales);
  }
  return best;
}

}  // namespace pagoda::quantize
