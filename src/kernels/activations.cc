#include "kernels/activations.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/chunks.h"
#include "kernels/dispatch.h"

namespace pagoda::kernels {
namespace {

const ActivationBody& body() {
  return pick(scalar::activation_body, avx2::activation_body, avx512::activation_body);
}

}  // namespace

WideGroups::WideGroups(std::vector<uint8_t> flags) : flags_(std::move(flags)), before_(flags_.size()) {
  for (size_t g = 0; g < flags_.size(); ++g) {
    PAGODA_CHECK(flags_[g] <= 1, "flag {} of group {}", flags_[g], g);
    before_[g] = static_cast<int32_t>(count_);
    count_ += flags_[g];
  }
}

WideGroups WideGroups::all(int64_t depth) {
  return WideGroups(
      std::vector<uint8_t>(static_cast<size_t>(round_up(depth, kActivationGroup) / kActivationGroup), 1));
}

WideGroups WideGroups::none(int64_t depth) {
  return WideGroups(
      std::vector<uint8_t>(static_cast<size_t>(round_up(depth, kActivationGroup) / kActivationGroup), 0));
}

ActivationBuffer::ActivationBuffer(int64_t max_rows, int64_t max_depth)
    : max_rows_(max_rows),
      max_depth_(round_up(max_depth, kActivationGroup)),
      data_(static_cast<size_t>(max_rows_ * max_depth_) * sizeof(float)),
      scales_(static_cast<size_t>(max_rows_ * max_depth_ / kActivationGroup) * sizeof(float)),
      sums_(static_cast<size_t>(max_rows_ * max_depth_ / kActivationSum) * sizeof(int32_t)),
      scaled_sums_(scales_.size()),
      unordered_(static_cast<size_t>(max_rows_ * max_depth_) * sizeof(float)) {}

void ActivationBuffer::begin(const ActivationSpec& spec, int64_t rows, int64_t depth) noexcept {
  PAGODA_CHECK(rows >= 0 && rows <= max_rows_, "{} rows, room for {}", rows, max_rows_);
  depth_ = depth;
  view_ = {};
  view_.form = spec.form;
  view_.rows = rows;
  view_.depth = round_up(depth, kActivationGroup);
  PAGODA_CHECK(depth > 0 && view_.depth <= max_depth_, "depth {}, room for {}", depth, max_depth_);
  PAGODA_CHECK(
      spec.order == nullptr || (spec.form == ActivationForm::kCoded && std::ssize(*spec.order) == depth),
      "an order for a depth of {}", depth);
  view_.order = spec.order;
  switch (spec.form) {
    case ActivationForm::kF32:
      view_.f32 = data_.as<float>();
      break;
    case ActivationForm::kBF16:
      view_.bf16 = data_.as<uint16_t>();
      break;
    case ActivationForm::kCoded:
      PAGODA_CHECK(spec.wide != nullptr && spec.wide->num_groups() * kActivationGroup == view_.depth,
                   "wide groups for depth {}", view_.depth);
      view_.wide = spec.wide;
      view_.codes = data_.as<int8_t>();
      view_.low_codes = view_.codes + max_rows_ * max_depth_;
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
  if (view_.order != nullptr) {
    std::memcpy(unordered_.as<float>() + row * view_.depth + first, values,
                static_cast<size_t>(count) * sizeof(float));
    return;
  }
  // The ragged end of a row goes through a zero-padded copy, so that bodies see whole groups only.
  alignas(64) float tail[kActivationGroup] = {};
  const int64_t whole = count / kActivationGroup * kActivationGroup;
  if (whole < count) std::memcpy(tail, values + whole, static_cast<size_t>(count - whole) * sizeof(float));
  const auto write = [&](int64_t column, const float* from, int64_t size) {
    const int64_t to = row * view_.depth + column;
    switch (view_.form) {
      case ActivationForm::kF32:
        std::memcpy(data_.as<float>() + to, from, static_cast<size_t>(size) * sizeof(float));
        break;
      case ActivationForm::kBF16:
        body().round_bf16(from, size, data_.as<uint16_t>() + to);
        break;
      case ActivationForm::kCoded:
        quantize(row, column / kActivationGroup, from, size / kActivationGroup);
        break;
    }
  };
  if (whole > 0) write(first, values, whole);
  if (whole < count) write(first + whole, tail, kActivationGroup);
}

void ActivationBuffer::write_group(int64_t group, const float* values) noexcept {
  PAGODA_CHECK(group >= 0 && (group + 1) * kActivationGroup <= depth_, "group {} of {} columns", group,
               depth_);
  for (int64_t row = 0; row < view_.rows; ++row, values += kActivationGroup) {
    if (view_.form == ActivationForm::kCoded && view_.order == nullptr) {
      quantize(row, group, values, 1);
    } else {
      write_columns(row, group * kActivationGroup, values, kActivationGroup);
    }
  }
}

void ActivationBuffer::finish_row(int64_t row) noexcept {
  if (view_.order == nullptr) return;
  const ColumnOrder& order = *view_.order;
  const float* const values = unordered_.as<float>() + row * view_.depth;
  for (int64_t first = 0; first < view_.depth; first += kActivationGroup) {
    alignas(64) float group[kActivationGroup] = {};
    const int64_t count = std::min<int64_t>(kActivationGroup, depth_ - first);
    for (int64_t i = 0; i < count; ++i) group[i] = values[order[static_cast<size_t>(first + i)]];
    quantize(row, first / kActivationGroup, group, 1);
  }
}

void ActivationBuffer::finish(ComputePool& pool) noexcept {
  if (view_.order == nullptr) return;
  const auto values = static_cast<double>(view_.rows * view_.depth);
  const int chunks = chunk_count(values * 0.3, view_.rows, pool.num_threads());
  pool.run(chunks, [&](int chunk, int) {
    const auto [begin, end] = chunk_range(view_.rows, chunks, chunk);
    for (int64_t row = begin; row < end; ++row) finish_row(row);
  });
}

void ActivationBuffer::quantize(int64_t row, int64_t group, const float* values, int64_t groups) noexcept {
  const int64_t at = row * (view_.depth / kActivationGroup) + group;
  int8_t* const low_codes = data_.as<int8_t>() + max_rows_ * max_depth_;
  QuantizedGroups out;
  out.wide = view_.wide->flags() + group;
  out.codes = data_.as<int8_t>() + at * kActivationGroup;
  out.low_codes = low_codes + (row * view_.wide->count() + view_.wide->before(group)) * kActivationGroup;
  out.scales = scales_.as<float>() + at;
  out.sums = sums_.as<int32_t>() + at * (kActivationGroup / kActivationSum);
  out.scaled_sums = scaled_sums_.as<float>() + at;
  body().quantize(values, groups, out);
}

Activations Activations::slice(int64_t first, int64_t count) const noexcept {
  Activations part = *this;
  part.rows = count;
  switch (form) {
    case ActivationForm::kF32:
      part.f32 += first * depth;
      break;
    case ActivationForm::kBF16:
      part.bf16 += first * depth;
      break;
    case ActivationForm::kCoded:
      part.codes += first * depth;
      part.low_codes += first * wide->count() * kActivationGroup;
      part.scales += first * depth / kActivationGroup;
      part.sums += first * depth / kActivationSum;
      part.scaled_sums += first * depth / kActivationGroup;
      break;
  }
  return part;
}

void convert_rows(ConstRowsView x, std::span<const int32_t> source, const ActivationSpec& spec,
                  ActivationBuffer& out, ComputePool& pool) noexcept {
  const auto rows = static_cast<int64_t>(source.size());
  out.begin(spec, rows, x.width);
  const int chunks = chunk_count(static_cast<double>(rows * x.width) * 0.2, rows, pool.num_threads());
  pool.run(chunks, [&](int chunk, int) {
    const auto [begin, end] = chunk_range(rows, chunks, chunk);
    for (int64_t row = begin; row < end; ++row) {
      out.write_row(row, x.row(source[static_cast<size_t>(row)]));
      out.finish_row(row);
    }
  });
}

void convert_activations(ConstRowsView x, const ActivationSpec& spec, ActivationBuffer& out,
                         ComputePool& pool) noexcept {
  out.begin(spec, x.rows, x.width);
  const int chunks = chunk_count(static_cast<double>(x.rows * x.width) * 0.15, x.rows, pool.num_threads());
  pool.run(chunks, [&](int chunk, int) {
    const auto [begin, end] = chunk_range(x.rows, chunks, chunk);
    for (int64_t row = begin; row < end; ++row) {
      out.write_row(row, x.row(row));
      out.finish_row(row);
    }
  });
}

}  // namespace pagoda::kernels
