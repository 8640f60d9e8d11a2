#include "quantize/coded_matrix.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "tensor/half.h"

namespace pagoda::quantize {

Grid fit_grid(std::span<const float> values, const GridOptions& options) {
  const int max_code = (1 << options.bits) - 1;
  float low = 0, high = 0;
  for (const float value : values) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  if (options.symmetric) {
    high = std::max(-low, high);
    low = -high;
  }
  // A group of zeros still needs a scale that is no zero in half precision.
  constexpr float kSmallestScale = 1e-5f;
  Grid grid;
  grid.scale = f16_to_f32(f32_to_f16(std::max((high - low) / static_cast<float>(max_code), kSmallestScale)));
  grid.zero = options.symmetric
                  ? 1 << (options.bits - 1)
                  : std::clamp(static_cast<int>(std::nearbyint(-low / grid.scale)), 1, max_code);
  return grid;
}

uint8_t round_to_grid(float value, const Grid& grid, int bits) {
  const float code = std::nearbyint(value / grid.scale) + static_cast<float>(grid.zero);
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

CodedMatrix round_to_nearest(const float* values, const CodedShape& shape, ComputePool& pool) {
  CodedMatrix coded(shape);
  pool.run(static_cast<int>(shape.rows), [&](int row, int) {
    const float* const in = values + row * shape.depth;
    uint8_t* const out = coded.row_codes(row);
    for (int64_t group = 0; group < shape.groups(); ++group) {
      const int64_t first = group * shape.group_size;
      const std::span<const float> part(in + first, static_cast<size_t>(shape.group_size));
      const Grid grid = fit_grid(part, shape.grid);
      coded.grid(row, group) = grid;
      for (int64_t k = first; k < first + shape.group_size; ++k) {
        out[k] = round_to_grid(in[k], grid, shape.grid.bits);
      }
    }
  });
  return coded;
}

}  // namespace pagoda::quantize
