#include "model/loader/compressed_matrix.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "model/loader/file_error.h"
#include "model/loader/group_index.h"
#include "model/loader/grouped_matrix.h"

namespace pagoda::model {
namespace {

using Shape = TensorParts::Shape;

struct RowParts {
  IntegerPart weight;
  bool packed = false;  // in words; else one signed byte each
  FloatPart scales;
  int64_t num_scales = 0;     // rows * groups, or 1 for all
  float scale_factor = 1.0f;  // of every scale
  std::optional<IntegerPart> zeros;
  bool zeros_packed = false;
};

class RowMatrix final : public GroupedMatrix {
 public:
  RowMatrix(const GroupedShape& shape, std::optional<int> zero, std::vector<int32_t> group_of, RowParts parts)
      : GroupedMatrix(shape, zero, std::move(group_of), parts.weight.description), parts_(std::move(parts)) {}

  void release_pages() const override { MmapFile::release(parts_.weight.data); }

 private:
  int bias() const { return 1 << (shape().bits - 1); }

  void unpack_codes(int64_t first, int64_t count, uint8_t* codes) const override {
    const int64_t depth = shape().depth, per_word = shape().per_word();
    const int64_t row_bytes = parts_.packed ? (depth + per_word - 1) / per_word * 4 : depth;
    for (int64_t r = 0; r < count; ++r, codes += depth) {
      const uint8_t* const row = parts_.weight.data.data() + (first + r) * row_bytes;
      if (!parts_.packed) {
        for (int64_t k = 0; k < depth; ++k) codes[k] = static_cast<uint8_t>(row[k] ^ 0x80);
      } else if (shape().bits == 8) {
        std::memcpy(codes, row, static_cast<size_t>(depth));
      } else {
        for (int64_t k = 0; k < depth; k += per_word) {
          const uint64_t eight = spread_nibbles(word_at(row, k / per_word));
          std::memcpy(codes + k, &eight, static_cast<size_t>(std::min(per_word, depth - k)));
        }
      }
    }
  }

  void unpack_scales(int64_t first, int64_t count, float* scales) const override {
    const int64_t groups = shape().groups(), wanted = count * groups;
    if (parts_.num_scales == 1) {
      parts_.scales.read(0, 1, scales);
      std::fill_n(scales + 1, wanted - 1, scales[0]);
    } else {
      parts_.scales.read(first * groups, wanted, scales);
    }
    for (int64_t i = 0; i < wanted; ++i) scales[i] *= parts_.scale_factor;
  }

  void unpack_zeros(int64_t first, int64_t count, int32_t* zeros) const override {
    const int64_t groups = shape().groups(), per_word = shape().per_word();
    const uint8_t* const data = parts_.zeros->data.data();
    const uint32_t mask = (1U << shape().bits) - 1;
    for (int64_t n = first; n < first + count; ++n) {
      for (int64_t g = 0; g < groups; ++g) {
        if (parts_.zeros_packed) {
          const auto shift = static_cast<int>(n % per_word) * shape().bits;
          *zeros++ = static_cast<int32_t>(word_at(data, n / per_word * groups + g) >> shift & mask);
        } else {
          *zeros++ = static_cast<int8_t>(data[n * groups + g]) + bias();
        }
      }
    }
  }

  RowParts parts_;
};

std::vector<Shape> scale_shapes(const CodeFormat& format, const GroupedShape& shape) {
  if (format.group_size == CodeFormat::kPerMatrix) return {{1}, {}, {1, 1}};
  if (shape.groups() == 1) return {{shape.rows, 1}, {shape.rows}};
  return {{shape.rows, shape.groups()}};
}

GroupedShape grouped_shape(const CodeFormat& format, int64_t rows, int64_t depth) {
  return {rows, depth, format.bits, format.columns(depth)};
}

// A model may have several formats: that of this matrix is the one whose shapes fit. The first, if none does,
// so that the message tells what is wrong with it.
CodeFormat choose_format(const TensorParts& parts, int64_t rows, int64_t depth,
                         const QuantizationConfig& config) {
  const bool packed = parts.has(".weight_packed");
  for (const CodeFormat& format : config.formats) {
    const GroupedShape shape = grouped_shape(format, rows, depth);
    const Shape words{rows, (depth + shape.per_word() - 1) / shape.per_word()};
    const bool codes_fit =
        packed ? parts.integers(".weight_packed", "I32", words).has_value() : format.bits == 8;
    if (codes_fit && parts.floats(".weight_scale", scale_shapes(format, shape))) return format;
  }
  return config.formats.front();
}

// weight_shape says what the padded words can't.
Result<void> check_shape(const TensorParts& parts, int64_t rows, int64_t depth) {
  if (!parts.has(".weight_shape")) return {};
  const bool wide = parts.dtype(".weight_shape") == "I64";
  const IntegerPart part = PAGODA_TRY(parts.integers(".weight_shape", wide ? "I64" : "I32", {2}));
  std::array<int64_t, 2> stored{};
  for (size_t i = 0; i < 2; ++i) {
    if (wide) {
      std::memcpy(&stored[i], part.data.data() + i * 8, 8);
    } else {
      stored[i] = static_cast<int32_t>(word_at(part.data.data(), static_cast<int64_t>(i)));
    }
  }
  if (stored == std::array{rows, depth}) return {};
  return make_error(ErrorKind::kCorruptFile, fmt::format("{} says [{}] instead of [{}, {}]", part.description,
                                                         number_list(stored), rows, depth));
}

Result<void> read_zero_points(const TensorParts& parts, const GroupedShape& shape, RowParts& found) {
  if (!parts.has(".weight_zero_point")) return {};
  const int64_t per_word = shape.per_word();
  found.zeros_packed = parts.dtype(".weight_zero_point") == "I32";
  const Shape size = found.zeros_packed     ? Shape{(shape.rows + per_word - 1) / per_word, shape.groups()}
                     : found.num_scales > 1 ? Shape{shape.rows, shape.groups()}
                                            : Shape{1};
  found.zeros = PAGODA_TRY(parts.integers(".weight_zero_point", found.zeros_packed ? "I32" : "I8", size));
  return {};
}

// The zero point of all groups as a code, if it is one.
std::optional<int> common_zero(const RowParts& found, int bits) {
  const int bias = 1 << (bits - 1);
  if (!found.zeros) return bias;
  const auto data = found.zeros->data;
  if (found.zeros_packed) return uniform_code(data, bits);
  const auto other = [&](uint8_t byte) { return byte != data[0]; };
  const int zero = static_cast<int8_t>(data[0]) + bias;
  if (zero < 0 || zero >= 2 * bias || std::any_of(data.begin(), data.end(), other)) return std::nullopt;
  return zero;
}

}  // namespace

Result<std::unique_ptr<MatrixReader>> open_compressed_matrix(const TensorParts& parts, int64_t rows,
                                                             int64_t depth,
                                                             const QuantizationConfig& config) {
  if (config.formats.empty()) {
    return corrupt_file(config.where, "'config_groups' has no weights, but {} is quantised",
                        shown(parts.stem()));
  }
  const CodeFormat format = choose_format(parts, rows, depth, config);
  const GroupedShape shape = grouped_shape(format, rows, depth);
  RowParts found;
  found.packed = parts.has(".weight_packed");
  const int64_t words = (depth + shape.per_word() - 1) / shape.per_word();
  found.weight = PAGODA_TRY(found.packed ? parts.integers(".weight_packed", "I32", {rows, words})
                                         : parts.integers(".weight", "I8", {rows, depth}));
  if (!found.packed && format.bits != 8) {
    return unsupported_model(parts.folder(), "{}: codes of {} bits in bytes can't be run",
                             shown(parts.stem()), format.bits);
  }
  PAGODA_TRY(check_shape(parts, rows, depth));
  found.num_scales = format.group_size == CodeFormat::kPerMatrix ? 1 : rows * shape.groups();
  found.scales = PAGODA_TRY(parts.floats(".weight_scale", scale_shapes(format, shape)));
  PAGODA_TRY(read_zero_points(parts, shape, found));
  std::vector<int32_t> group_of;
  if (parts.has(".weight_g_idx")) {
    const IntegerPart index = PAGODA_TRY(parts.integers(".weight_g_idx", "I32", {depth}));
    group_of = PAGODA_TRY(read_group_index(index, shape));
  }
  const auto zero = common_zero(found, shape.bits);
  return std::unique_ptr<MatrixReader>(
      std::make_unique<RowMatrix>(shape, zero, std::move(group_of), std::move(found)));
}

Result<std::unique_ptr<MatrixReader>> open_bits_and_bytes_matrix(const TensorParts& parts, int64_t rows,
                                                                 int64_t depth) {
  const GroupedShape shape{rows, depth, 8, depth};
  RowParts found;
  found.weight = PAGODA_TRY(parts.integers(".weight", "I8", {rows, depth}));
  const Shape scales{rows};
  found.scales = PAGODA_TRY(parts.floats(".SCB", std::span(&scales, 1)));
  found.num_scales = rows;
  found.scale_factor = 1.0f / 127;
  if (parts.has(".weight_format")) {
    const IntegerPart order = PAGODA_TRY(parts.integers(".weight_format", "U8", {}));
    if (order.data[0] != 0) {  // "row"; the others are orders for GPUs
      return make_error(ErrorKind::kUnsupportedModel,
                        fmt::format("{} is {}; only rows (0) can be run", order.description, order.data[0]));
    }
  }
  return std::unique_ptr<MatrixReader>(
      std::make_unique<RowMatrix>(shape, 128, std::vector<int32_t>(), std::move(found)));
}

}  // namespace pagoda::model
