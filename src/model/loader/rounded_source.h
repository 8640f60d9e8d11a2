// Float weights rounded to codes while they are read (--quantization int8, int4).
//
// int8: symmetric, scale = max|w| / 127 of each row's groups of 128 columns (64 or 32 where 128 don't divide
// them). W8A8 elsewhere has one scale a row; the packed layout repeats that for every 128 columns, so that
// groups with scales of their own cost nothing and lose less.
// int4: codes 0 to 15 per group of 32 with offsets: w = min + (max - min) / 15 * code. Offsets cost half a
// bit a weight and lose a quarter less than symmetric codes: on normally distributed weights the root mean
// square error is 8.6 % of the weights' with them, 11.1 % with scale = max|w| / 7.5 and 10.0 % with -8 for
// the largest; on the layers of Qwen2.5-Coder-0.5B 7.9, 10.2 and 10.7 %.
//
// The layers' projections are rounded to what is asked for (or not at all), the token embedding and the
// output head to int8 in every case: a step reads all of the head, in small models a quarter of the weights.
// Routers of experts and learned positions stay floats, and what the file has as codes stays as it is.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/tensor_source.h"

namespace pagoda::model {

enum class Rounding : uint8_t { kInt8, kInt4 };

// `source` of plain floats, read as codes.
class RoundedMatrix final : public MatrixReader {
 public:
  RoundedMatrix(std::unique_ptr<MatrixReader> source, Rounding rounding);

  int64_t rows() const override { return source_->rows(); }
  int64_t depth() const override { return source_->depth(); }
  CodeScheme scheme() const override { return scheme_; }
  std::string describe() const override { return source_->describe(); }
  Range code_range(int64_t first, int64_t count) const override;
  void read_codes(int64_t first, int64_t count, uint8_t* codes, float* scales, float* offsets) const override;
  // What the codes stand for.
  void read_values(int64_t first, int64_t count, float* values) const override;
  void release_pages() const override { source_->release_pages(); }

 private:
  int64_t groups_per_row() const;
  // Calls body with the floats of every group, row by row.
  template <class Body>
  void for_each_group(int64_t first, int64_t count, Body body) const;

  std::unique_ptr<MatrixReader> source_;
  CodeScheme scheme_;
};

class RoundedSource final : public TensorSource {
 public:
  RoundedSource(std::unique_ptr<TensorSource> source, std::optional<Rounding> layers)
      : source_(std::move(source)), layers_(layers) {}

  std::vector<TensorInfo> list() const override { return source_->list(); }
  bool contains(const std::string& name) const override { return source_->contains(name); }
  Result<std::unique_ptr<MatrixReader>> matrix(const std::string& name, int64_t rows,
                                               int64_t depth) const override;
  Result<std::vector<float>> vector(const std::string& name, int64_t size) const override {
    return source_->vector(name, size);
  }

 private:
  std::unique_ptr<TensorSource> source_;
  std::optional<Rounding> layers_;
};

}  // namespace pagoda::model
