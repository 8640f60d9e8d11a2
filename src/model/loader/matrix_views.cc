#include "model/loader/matrix_views.h"

#include <utility>

#include "base/check.h"

namespace pagoda::model {

RowSlice::RowSlice(std::shared_ptr<const MatrixReader> whole, int64_t first, int64_t rows)
    : whole_(std::move(whole)), first_(first), rows_(rows) {
  PAGODA_CHECK(first >= 0 && rows >= 0 && first + rows <= whole_->rows(), "rows {} + {} of {}", first, rows,
               whole_->rows());
}

MatrixReader::Range RowSlice::code_range(int64_t first, int64_t count) const {
  return whole_->code_range(first_ + first, count);
}

void RowSlice::read_codes(int64_t first, int64_t count, uint8_t* codes, float* scales, float* offsets) const {
  whole_->read_codes(first_ + first, count, codes, scales, offsets);
}

void RowSlice::read_values(int64_t first, int64_t count, float* values) const {
  whole_->read_values(first_ + first, count, values);
}

void RowSlice::release_pages() const {
  if (first_ + rows_ == whole_->rows()) whole_->release_pages();
}

Transposed::Transposed(std::shared_ptr<const MatrixReader> stored) : stored_(std::move(stored)) {
  PAGODA_CHECK(stored_->scheme().bits == 0, "{} holds codes", stored_->describe());
}

MatrixReader::Range Transposed::code_range(int64_t, int64_t) const {
  PAGODA_CHECK(false, "{} holds no codes", describe());
}

void Transposed::read_codes(int64_t, int64_t, uint8_t*, float*, float*) const {
  PAGODA_CHECK(false, "{} holds no codes", describe());
}

void Transposed::read_values(int64_t first, int64_t count, float* values) const {
  stored_->read_transposed(first, count, values);
}

}  // namespace pagoda::model
