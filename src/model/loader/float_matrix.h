// Plain numbers of a checkpoint: F32, F16 and BF16, in GGUF and safetensors alike.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mmap_file.h"
#include "base/result.h"
#include "model/tensor_source.h"
#include "tensor/dtype.h"

namespace pagoda::model {

// "F32", "F16" or "BF16", as both formats spell them; nullopt for anything else.
std::optional<DType> float_dtype(std::string_view name);

// Converts `count` little-endian numbers at `data`, aligned or not.
void read_floats(DType type, const uint8_t* data, int64_t count, float* values);

// Where a row of the asked order lies in a file that stores each attention head's rows in interleaved RoPE
// order: pairs (0, head_dim / 2), (1, head_dim / 2 + 1), ... side by side. head_dim 0: the order is the same.
inline int64_t stored_row(int64_t row, int64_t head_dim) {
  if (head_dim == 0) return row;
  const int64_t head = row / head_dim, i = row % head_dim, half = head_dim / 2;
  return head * head_dim + (i % half) * 2 + i / half;
}

// What every reader of a mapped file knows.
struct MatrixPlace {
  std::shared_ptr<const void> keep_alive;  // whatever owns `data`
  std::span<const uint8_t> data;
  int64_t rows = 0, depth = 0;
  int64_t interleaved_head_dim = 0;  // see stored_row
  std::string description;           // "<file>: tensor '<name>'"
};

// kCorruptFile naming file, tensor and offset for the first value that is infinite or no number: it would
// make every answer empty, long after the start.
Result<void> check_finite(std::span<const float> values, std::string_view path, std::string_view name,
                          uint64_t offset);

class FloatMatrix final : public MatrixReader {
 public:
  FloatMatrix(DType type, MatrixPlace place) : type_(type), place_(std::move(place)) {}

  int64_t rows() const override { return place_.rows; }
  int64_t depth() const override { return place_.depth; }
  CodeScheme scheme() const override { return {}; }
  std::string describe() const override { return place_.description; }
  Range code_range(int64_t first, int64_t count) const override;
  void read_codes(int64_t first, int64_t count, uint8_t* codes, float* scales, float* offsets) const override;
  void read_values(int64_t first, int64_t count, float* values) const override;
  void read_transposed(int64_t first, int64_t count, float* values) const override;
  void release_pages() const override { MmapFile::release(place_.data); }

 private:
  DType type_;
  MatrixPlace place_;
};

}  // namespace pagoda::model
