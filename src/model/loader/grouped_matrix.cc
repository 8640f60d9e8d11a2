#include "model/loader/grouped_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "tensor/packed_weight.h"

namespace pagoda::model {

int packed_group_size(const GroupedShape& shape) {
  const int64_t padded = round_up(shape.depth, kDepthMultiple);
  for (const int size : {128, 64, 32, 16}) {
    const bool one_group = shape.group_size >= shape.depth;
    if (padded % size == 0 && (one_group || shape.group_size % size == 0)) return size;
  }
  return 0;
}

std::optional<int> uniform_code(std::span<const uint8_t> words, int bits) {
  if (words.size() < 4 || words.size() % 4 != 0) return std::nullopt;
  const int code = words[0] & ((1 << bits) - 1);
  const auto byte = static_cast<uint8_t>(bits == 4 ? code | code << 4 : code);
  // Equal to itself shifted by one byte: all bytes are the first.
  const bool same = words[0] == byte && std::memcmp(words.data(), words.data() + 1, words.size() - 1) == 0;
  return same ? std::optional(code) : std::nullopt;
}

std::vector<int32_t> order_by_group(std::span<const int32_t> group_of, const GroupedShape& shape) {
  std::vector<int32_t> order(group_of.size());
  std::iota(order.begin(), order.end(), 0);
  const auto group = [&](int32_t column) { return group_of[static_cast<size_t>(column)]; };
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return group(a) < group(b); });
  for (size_t j = 0; j < order.size(); ++j) {
    if (group(order[j]) != static_cast<int64_t>(j) / shape.group_size) return {};
  }
  return order;
}

GroupedMatrix::GroupedMatrix(const GroupedShape& shape, std::optional<int> zero,
                             std::vector<int32_t> group_of, std::string description)
    : shape_(shape), zero_(zero), group_of_(std::move(group_of)), description_(std::move(description)) {
  PAGODA_CHECK(shape.bits == 4 || shape.bits == 8, "{} bits", shape.bits);
  PAGODA_CHECK(shape.group_size >= 1 && shape.group_size <= shape.depth);
  const int group = packed_group_size(shape);
  if (!group_of_.empty()) order_ = order_by_group(group_of_, shape);
  if (group == 0 || (order_.empty() && !group_of_.empty())) {
    order_.clear();
    return;  // plain floats
  }
  scheme_.bits = shape.bits;
  scheme_.group_size = group;
  scheme_.has_offsets = !zero.has_value();
  scheme_.zero_point = zero.value_or(0);
}

GroupedMatrix::Groups GroupedMatrix::groups_of(int64_t first, int64_t count) const {
  PAGODA_CHECK(first >= 0 && count >= 0 && first + count <= shape_.rows, "rows {} + {} of {}", first, count,
               shape_.rows);
  const auto size = static_cast<size_t>(count * shape_.groups());
  Groups groups{std::vector<float>(size), {}};
  unpack_scales(first, count, groups.scales.data());
  if (zero_) return groups;
  groups.zeros.resize(size);
  unpack_zeros(first, count, groups.zeros.data());
  return groups;
}

MatrixReader::Range GroupedMatrix::code_range(int64_t first, int64_t count) const {
  const Groups groups = groups_of(first, count);
  Range range;
  for (size_t i = 0; i < groups.scales.size(); ++i) {
    const float scale = std::fabs(groups.scales[i]);
    if (std::isnan(scale)) return {scale, scale};
    range.max_scale = std::max(range.max_scale, scale);
    if (zero_) continue;
    range.max_offset = std::max(range.max_offset, scale * std::fabs(static_cast<float>(groups.zeros[i])));
  }
  return range;
}

// `count` rows of codes from the file's order of columns into column_order().
void GroupedMatrix::sort_columns(int64_t count, uint8_t* codes) const {
  if (order_.empty()) return;
  std::vector<uint8_t> row(order_.size());
  for (int64_t r = 0; r < count; ++r, codes += shape_.depth) {
    std::memcpy(row.data(), codes, row.size());
    for (size_t j = 0; j < order_.size(); ++j) codes[j] = row[static_cast<size_t>(order_[j])];
  }
}

void GroupedMatrix::read_codes(int64_t first, int64_t count, uint8_t* codes, float* scales,
                               float* offsets) const {
  unpack_codes(first, count, codes);
  sort_columns(count, codes);
  const Groups groups = groups_of(first, count);
  const int64_t per_row = shape_.groups();
  const int64_t packed = round_up(shape_.depth, kDepthMultiple) / scheme_.group_size;
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t p = 0; p < packed; ++p) {
      const int64_t group = std::min(p * scheme_.group_size / shape_.group_size, per_row - 1);
      const auto from = static_cast<size_t>(r * per_row + group);
      *scales++ = groups.scales[from];
      // Rounded once, as scale * zero fits a float: 11 + 8 bits.
      if (!zero_) *offsets++ = -groups.scales[from] * static_cast<float>(groups.zeros[from]);
    }
  }
}

void GroupedMatrix::read_values(int64_t first, int64_t count, float* values) const {
  std::vector<uint8_t> codes(static_cast<size_t>(count * shape_.depth));
  unpack_codes(first, count, codes.data());
  const Groups groups = groups_of(first, count);
  const int64_t per_row = shape_.groups();
  const uint8_t* code = codes.data();
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t k = 0; k < shape_.depth; ++k) {
      const int64_t group = group_of_.empty() ? k / shape_.group_size : group_of_[static_cast<size_t>(k)];
      const auto at = static_cast<size_t>(r * per_row + group);
      const int zero = zero_ ? *zero_ : groups.zeros[at];
      *values++ = groups.scales[at] * static_cast<float>(*code++ - zero);
    }
  }
}

}  // namespace pagoda::model
