// The tensors that make up one quantised matrix: X.qweight, X.scales, ...
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/loader/safetensors_source.h"
#include "tensor/dtype.h"

namespace pagoda::model {

// A tensor of whole numbers.
struct IntegerPart {
  std::shared_ptr<const SafetensorsFile> file;  // keeps `data` mapped
  std::span<const uint8_t> data;
  std::vector<int64_t> shape;
  std::string description;  // "<file>: tensor '<name>' at offset <offset>"
};

// A tensor of floats.
struct FloatPart {
  std::shared_ptr<const SafetensorsFile> file;
  std::span<const uint8_t> data;
  DType type = DType::kF32;

  // Numbers [first, first + count).
  void read(int64_t first, int64_t count, float* values) const;
};

// Columns [first, first + count) of a matrix in rows of `width` numbers, turned into rows: [count, lines].
struct MatrixSize {
  int64_t lines, width;
};
void read_columns(const FloatPart& part, MatrixSize size, int64_t first, int64_t count, float* values);

inline uint32_t word_at(const uint8_t* words, int64_t index) {
  uint32_t word;
  __builtin_memcpy(&word, words + index * 4, 4);
  return word;
}

// Errors are one line each that names the tensor: kCorruptFile when it is missing or has another shape,
// kUnsupportedModel when it has another type.
class TensorParts {
 public:
  using Shape = std::vector<int64_t>;
  // `stem`: the matrix's name without ".weight". `source` must outlive this.
  TensorParts(const SafetensorsSource& source, std::string stem) : source_(source), stem_(std::move(stem)) {}

  const std::string& stem() const noexcept { return stem_; }
  const std::string& folder() const noexcept { return source_.folder(); }
  bool has(std::string_view suffix) const { return source_.place(stem_ + std::string(suffix)) != nullptr; }
  // `dtype` as the file spells it: "I32", "I8", ...
  Result<IntegerPart> integers(std::string_view suffix, std::string_view dtype, const Shape& shape) const;
  // F32, F16 or BF16, in any of `shapes`: tools store a column as a vector or as a matrix. Messages name the
  // first.
  Result<FloatPart> floats(std::string_view suffix, std::span<const Shape> shapes) const;
  // The type of a tensor that is there; empty otherwise.
  std::string_view dtype(std::string_view suffix) const;

 private:
  Result<const SafetensorsSource::Place*> find(std::string_view suffix, std::span<const Shape> shapes) const;

  const SafetensorsSource& source_;
  std::string stem_;
};

}  // namespace pagoda::model
