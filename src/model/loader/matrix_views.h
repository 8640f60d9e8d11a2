// Parts of a matrix, read through the matrix: nothing is copied.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "model/tensor_source.h"

namespace pagoda::model {

// Rows [first, first + rows) of another matrix: q of a fused qkv, an expert of many.
class RowSlice final : public MatrixReader {
 public:
  RowSlice(std::shared_ptr<const MatrixReader> whole, int64_t first, int64_t rows);

  int64_t rows() const override { return rows_; }
  int64_t depth() const override { return whole_->depth(); }
  CodeScheme scheme() const override { return whole_->scheme(); }
  std::string describe() const override { return whole_->describe(); }
  Range code_range(int64_t first, int64_t count) const override;
  void read_codes(int64_t first, int64_t count, uint8_t* codes, float* scales, float* offsets) const override;
  std::span<const int32_t> column_order() const override { return whole_->column_order(); }
  void read_values(int64_t first, int64_t count, float* values) const override;
  // The slices of a matrix are packed in order: the last one gives its pages back.
  void release_pages() const override;

 private:
  std::shared_ptr<const MatrixReader> whole_;
  int64_t first_, rows_;
};

// A matrix of floats that is stored inputs first.
class Transposed final : public MatrixReader {
 public:
  explicit Transposed(std::shared_ptr<const MatrixReader> stored);

  int64_t rows() const override { return stored_->depth(); }
  int64_t depth() const override { return stored_->rows(); }
  CodeScheme scheme() const override { return {}; }
  std::string describe() const override { return stored_->describe(); }
  Range code_range(int64_t first, int64_t count) const override;
  void read_codes(int64_t first, int64_t count, uint8_t* codes, float* scales, float* offsets) const override;
  void read_values(int64_t first, int64_t count, float* values) const override;
  void release_pages() const override { stored_->release_pages(); }

 private:
  std::shared_ptr<const MatrixReader> stored_;
};

}  // namespace pagoda::model
