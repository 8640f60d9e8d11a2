#include "kernels/activations.h"

#include <cstring>

#include "base/check.h"
#include "kernels/dispatch.h"

namespace pagoda::kernels {
namespace {

const ActivationBody& body() {
  return pick(scalar::activation_body, avx2::activation_body, avx512::activation_body);
}

}  // namespace

ActivationBuffer::ActivationBuffer(int64_t max_rows, int64_t max_depth)
    : max_rows_(max_rows),
      max_depth_(round_up(max_depth, kActivationGroup)),
      data_(static_cast<size_t>(max_rows_ * max_depth_) * sizeof(float)),
      scales_(static_cast<size_t>(max_rows_ * max_depth_ / kActivationGroup) * sizeof(float)),
      sums_(static_cast<size_t>(max_rows_ * max_depth_ / kActivationSum) * sizeof(int32_t)),
      scaled_sums_(scales_.size()) {}

void ActivationBuffer::begin(ActivationForm form, int64_t rows, int64_t depth) noexcept {
  PAGODA_CHECK(rows >= 0 && rows <= max_rows_, "{} rows, room for {}", rows, max_rows_);
  depth_ = depth;
  view_ = {};
  view_.form = form;
  view_.rows = rows;
  view_.depth = round_up(depth, kActivationGroup);
  PAGODA_CHECK(depth > 0 && view_.depth <= max_depth_, "depth {}, room for {}", depth, max_depth_);
  switch (form) {
    case ActivationForm::kF32:
      view_.f32 = data_.as<float>();
      break;
    case ActivationForm::kBF16:
      view_.bf16 = data_.as<uint16_t>();
      break;
    case ActivationForm::kInt8:
    case ActivationForm::kInt16:
      view_.codes = data_.as<int8_t>();
      view_.scales = scales_.as<float>();
      view_.sums = sums_.as<int32_t>();
      view_.scaled_sums = scaled_sums_.as<float>();
      break;
  }
}

void ActivationBuffer::write_row(int64_t row, const float* row_values) noexcept {
  write_columns(row, 0, row_values, depth_);
}

void ActivationBuffer::write_columns(int64_t row, int64_t first, const float* values,
                                     int64_t count) noexcept {
  PAGODA_CHECK(row >= 0 && row < view_.rows && first % kActivationGroup == 0 && first + count <= depth_ &&
                   (count % kActivationGroup == 0 || first + count == depth_),
               "row {} of {}, columns {} + {} of {}", row, view_.rows, first, count, depth_);
  // The ragged end of a row goes through a zero-padded copy, so that bodies see whole groups only.
  alignas(64) float tail[kActivationGroup] = {};
  const int64_t whole = count / kActivationGroup * kActivationGroup;
  if (whole < count) std::memcpy(tail, values + whole, static_cast<size_t>(count - whole) * sizeof(float));
  const int64_t at = row * view_.depth + first;
  const auto write = [&](int64_t to, const float* from, int64_t size) {
    switch (view_.form) {
      case ActivationForm::kF32:
        std::memcpy(data_.as<float>() + to, from, static_cast<size_t>(size) * sizeof(float));
        break;
      case ActivationForm::kBF16:
        body().round_bf16(from, size, data_.as<uint16_t>() + to);
        break;
      case ActivationForm::kInt8:
      case ActivationForm::kInt16:
        quantize(row, to, from, size / kActivationGroup);
        break;
    }
  };
  if (whole > 0) write(at, values, whole);
  if (whole < count) write(at + whole, tail, kActivationGroup);
}

void ActivationBuffer::quantize(int64_t row, int64_t at, const float* values, int64_t groups) noexcept {
  QuantizedGroups out;
  out.scales = scales_.as<float>() + at / kActivationGroup;
  out.sums = sums_.as<int32_t>() + at / kActivationSum;
  out.scaled_sums = scaled_sums_.as<float>() + at / kActivationGroup;
  const bool wide = view_.form == ActivationForm::kInt16;
  out.codes = data_.as<int8_t>() + at + (wide ? row * view_.depth : 0);
  out.low_codes = wide ? out.codes + view_.depth : nullptr;
  (wide ? body().quantize16 : body().quantize8)(values, groups, out);
}

void convert_activations(const float* x, int64_t rows, int64_t depth, int64_t stride, ActivationForm form,
                         ActivationBuffer& out, ComputePool& pool) noexcept {
  out.begin(form, rows, depth);
  const int chunks = chunk_count(static_cast<double>(rows * depth) * 0.15, rows, pool.num_threads());
  pool.run(chunks, [&](int chunk, int) {
    const auto [begin, end] = chunk_range(rows, chunks, chunk);
    for (int64_t row = begin; row < end; ++row) out.write_row(row, x + row * stride);
  });
}

}  // namespace pagoda::kernels
