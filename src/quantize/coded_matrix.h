// A matrix as integer codes: w[n, k] = scale[n, g] * (code[n, k] - zero[n, g]), g the group of input k.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"

namespace pagoda::quantize {

struct Grid {
  float scale = 0;  // positive, exactly a half-precision number
  int zero = 0;
};

struct GridOptions {
  int bits = 4;            // 2 to 8
  bool symmetric = false;  // the zero point is 2^(bits - 1)
};

// The grid whose range covers `values` and zero. Zero points are at least 1: files of the format "gptq"
// store them minus one, and kernels differ in what they make of -1.
Grid fit_grid(std::span<const float> values, const GridOptions& options);

// The grid of those with less range than fit_grid's that loses least: the sum of importance * error^2.
Grid fit_grid_to(std::span<const float> values, std::span<const float> importance,
                 const GridOptions& options);

// The nearest code of `value`, in [0, 2^bits).
uint8_t round_to_grid(float value, const Grid& grid, int bits);
inline float grid_value(uint8_t code, const Grid& grid) {
  return grid.scale * static_cast<float>(int{code} - grid.zero);
}

struct CodedShape {
  int64_t rows = 0, depth = 0;
  int64_t group_size = 0;  // divides the depth
  GridOptions grid;

  int64_t groups() const { return depth / group_size; }
};

struct CodedMatrix {
  CodedShape shape;
  std::vector<uint8_t> codes;     // [rows, depth]
  std::vector<Grid> grids;        // [rows, groups]
  std::vector<int32_t> group_of;  // [depth]; group_size columns to each group

  CodedMatrix() = default;
  // Groups of neighbouring columns, nothing set yet.
  explicit CodedMatrix(const CodedShape& of);

  Grid& grid(int64_t row, int64_t group) { return grids[static_cast<size_t>(row * shape.groups() + group)]; }
  const Grid& grid(int64_t row, int64_t group) const {
    return grids[static_cast<size_t>(row * shape.groups() + group)];
  }
  uint8_t* row_codes(int64_t row) { return codes.data() + row * shape.depth; }
  const uint8_t* row_codes(int64_t row) const { return codes.data() + row * shape.depth; }

  // What the codes stand for, [rows, depth].
  void dequantise(float* values, ComputePool& pool) const;
};

// Every weight to the nearest point of its group's grid, which is fitted to the importance of the columns if
// that is given. `values` is [rows, depth].
CodedMatrix round_to_nearest(const float* values, const CodedShape& shape, ComputePool& pool,
                             std::span<const float> importance = {});

}  // namespace pagoda::quantize
