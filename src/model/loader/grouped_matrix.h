// What the readers of quantised Hugging Face matrices share: codes of one width, a scale and maybe a zero
// point for each group of columns: w = scale * (code - zero).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/loader/safetensors_source.h"
#include "model/tensor_source.h"

namespace pagoda::model {

struct GroupedShape {
  int64_t rows = 0, depth = 0;
  int bits = 0;
  int64_t group_size = 0;  // columns that share a scale, at most depth; the last group may have fewer

  int64_t groups() const { return (depth + group_size - 1) / group_size; }
  // Codes in a 32-bit word.
  int64_t per_word() const { return 32 / bits; }
};

// The group size of the packed weight, for which scales are repeated: the largest of those there are that
// divides the padded depth and, unless one group is all of a row, the file's group size. 0 when none does.
int packed_group_size(const GroupedShape& shape);

// The code that all `bits`-wide fields of `words` hold, if they hold the same. Empty: nullopt.
std::optional<int> uniform_code(std::span<const uint8_t> words, int bits);

// The eight nibbles of a word as bytes, the lowest first.
inline uint64_t spread_nibbles(uint32_t word) {
  uint64_t x = word;
  x = (x | x << 16) & 0x0000ffff0000ffff;
  x = (x | x << 8) & 0x00ff00ff00ff00ff;
  return (x | x << 4) & 0x0f0f0f0f0f0f0f0f;
}

// The columns sorted by group, those of a group in their own order. Empty when the groups are not all of
// group_size columns, but for the last: then they don't begin where a packed weight's do.
std::vector<int32_t> order_by_group(std::span<const int32_t> group_of, const GroupedShape& shape);

class GroupedMatrix : public MatrixReader {
 public:
  int64_t rows() const override { return shape_.rows; }
  int64_t depth() const override { return shape_.depth; }
  CodeScheme scheme() const override { return scheme_; }
  std::string describe() const override { return description_; }
  Range code_range(int64_t first, int64_t count) const override;
  void read_codes(int64_t first, int64_t count, uint8_t* codes, float* scales, float* offsets) const override;
  // By group, when the file's columns are not.
  std::span<const int32_t> column_order() const override { return order_; }
  void read_values(int64_t first, int64_t count, float* values) const override;

 protected:
  // `zero`: that of all groups, or nullopt when they have their own. `group_of` gives each column its group,
  // in range; empty: they follow each other.
  GroupedMatrix(const GroupedShape& shape, std::optional<int> zero, std::vector<int32_t> group_of,
                std::string description);
  const GroupedShape& shape() const { return shape_; }

  // Rows [first, first + count) as [count, depth], in the file's order of columns.
  virtual void unpack_codes(int64_t first, int64_t count, uint8_t* codes) const = 0;
  // Their scales [count, groups].
  virtual void unpack_scales(int64_t first, int64_t count, float* scales) const = 0;
  // Their zero points; only when groups have their own.
  virtual void unpack_zeros(int64_t first, int64_t count, int32_t* zeros) const = 0;

 private:
  struct Groups {
    std::vector<float> scales;
    std::vector<int32_t> zeros;
  };
  Groups groups_of(int64_t first, int64_t count) const;
  void sort_columns(int64_t count, uint8_t* codes) const;

  GroupedShape shape_;
  std::optional<int> zero_;
  CodeScheme scheme_;
  std::vector<int32_t> group_of_;
  std::vector<int32_t> order_;
  std::string description_;
};

}  // namespace pagoda::model
