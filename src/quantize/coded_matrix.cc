#include "quantize/coded_matrix.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "tensor/half.h"

namespace pagoda::quantize {

namespace {

// To the nearest integer, halves to even, for |x| below 2^22: adding 1.5 * 2^23 leaves no bits behind the
// point. Without SSE 4.1, which this file is compiled for, nearbyint is a call.
float round_even(float x) {
  constexpr float kNoFraction = 12582912.0f;
  return (x + kNoFraction) - kNoFraction;
}
constexpr float kFarOutside = 1e6f;  // of every range of codes

struct Range {
  float low = 0, high = 0;
};

Range range_of(std::span<const float> values, bool symmetric) {
  Range range;
  for (const float value : values) {
    range.low = std::min(range.low, value);
    range.high = std::max(range.high, value);
  }
  if (symmetric) {
    range.high = std::max(-range.low, range.high);
    range.low = -range.high;
  }
  return range;
}

Grid grid_of(const Range& range, const GridOptions& options) {
  const int max_code = (1 << options.bits) - 1;
  // A group of zeros still needs a scale that is no zero in half precision.
  constexpr float kSmallestScale = 1e-5f;
  const float exact = std::max((range.high - range.low) / static_cast<float>(max_code), kSmallestScale);
  Grid grid;
  grid.scale = f16_to_f32(f32_to_f16(exact));
  grid.zero = options.symmetric
                  ? 1 << (options.bits - 1)
                  : std::clamp(static_cast<int>(std::nearbyint(-range.low / grid.scale)), 1, max_code);
  return grid;
}

}  // namespace

Grid fit_grid(std::span<const float> values, const GridOptions& options) {
  return grid_of(range_of(values, options.symmetric), options);
}

Grid fit_grid_to(std::span<const float> values, std::span<const float> importance,
                 const GridOptions& options) {
  // A twentieth at a time down to 0.7: below that hardly any group of 4 bits gains, and 8 bits gain nothing.
  constexpr float kStep = 0.05f;
  const int steps = options.bits <= 4 ? 6 : 0;
  const Range range = range_of(values, options.symmetric);
  const auto loss = [&](const Grid& grid) {
    const float inverse = 1.0f / grid.scale, zero = static_cast<float>(grid.zero);
    const float most = static_cast<float>((1 << options.bits) - 1);
    float sum = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const float code = std::min(
          std::max(round_even(std::clamp(values[i] * inverse, -kFarOutside, kFarOutside)) + zero, 0.0f),
          most);
      const float error = values[i] - grid.scale * (code - zero);
      sum += importance[i] * error * error;
    }
    return sum;
  };
  Grid best = grid_of(range, options);
  float least = steps > 0 ? loss(best) : 0;
  for (int step = 1; step <= steps; ++step) {
    const float part = 1.0f - kStep * static_cast<float>(step);
    const Grid grid = grid_of({range.low * part, range.high * part}, options);
    const float lost = loss(grid);
    if (lost >= least) continue;
    least = lost;
    best = grid;
  }
  return best;
}

uint8_t round_to_grid(float value, const Grid& grid, int bits) {
  const float steps = std::clamp(value / grid.scale, -kFarOutside, kFarOutside);
  const float code = round_even(steps) + static_cast<float>(grid.zero);
  return static_cast<uint8_t>(std::clamp(code, 0.0f, static_cast<float>((1 << bits) - 1)));
}

CodedMatrix::CodedMatrix(const CodedShape& of) : shape(of) {
  PAGODA_CHECK(shape.group_size > 0 && shape.depth % shape.group_size == 0, "groups of {} in {}",
               shape.group_size, shape.depth);
  codes.resize(static_cast<size_t>(shape.rows * shape.depth));
  grids.resize(static_cast<size_t>(shape.rows * shape.groups()));
  for (int64_t k = 0; k < shape.depth; ++k) group_of.push_back(static_cast<int32_t>(k / shape.group_size));
}

void CodedMatrix::dequantise(float* values, ComputePool& pool) const {
  pool.run(static_cast<int>(shape.rows), [&](int row, int) {
    const uint8_t* const code = row_codes(row);
    float* const out = values + row * shape.depth;
    for (int64_t k = 0; k < shape.depth; ++k) {
      out[k] = grid_value(code[k], grid(row, group_of[static_cast<size_t>(k)]));
    }
  });
}

CodedMatrix round_to_nearest(const float* values, const CodedShape& shape, ComputePool& pool,
                             std::span<const float> importance) {
  CodedMatrix coded(shape);
  pool.run(static_cast<int>(shape.rows), [&](int row, int) {
    const float* const in = values + row * shape.depth;
    uint8_t* const out = coded.row_codes(row);
    for (int64_t group = 0; group < shape.groups(); ++group) {
      const int64_t first = group * shape.group_size;
      const std::span<const float> part(in + first, static_cast<size_t>(shape.group_size));
      const Grid grid =
          importance.empty()
              ? fit_grid(part, shape.grid)
              : fit_grid_to(part, importance.subspan(static_cast<size_t>(first), part.size()), shape.grid);
      coded.grid(row, group) = grid;
      for (int64_t k = first; k < first + shape.group_size; ++k) {
        out[k] = round_to_grid(in[k], grid, shape.grid.bits);
      }
    }
  });
  return coded;
}

}  // namespace pagoda::quantize
