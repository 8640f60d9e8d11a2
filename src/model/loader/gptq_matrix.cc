#include "model/loader/gptq_matrix.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "model/loader/file_error.h"
#include "model/loader/group_index.h"
#include "model/loader/grouped_matrix.h"

namespace pagoda::model {
namespace {

struct GptqParts {
  IntegerPart weight, zeros;
  FloatPart scales;
  int zeros_added = 0;  // to a stored zero point
};

class GptqMatrix final : public GroupedMatrix {
 public:
  GptqMatrix(const GroupedShape& shape, std::optional<int> zero, std::vector<int32_t> group_of,
             GptqParts parts)
      : GroupedMatrix(shape, zero, std::move(group_of), parts.weight.description), parts_(std::move(parts)) {}

  void release_pages() const override {
    for (const auto data : {parts_.weight.data, parts_.zeros.data, parts_.scales.data}) {
      MmapFile::release(data);
    }
  }

 private:
  // Words of neighbouring outputs lie side by side: a panel of 32 rows reads two cache lines of each row of
  // words.
  void unpack_codes(int64_t first, int64_t count, uint8_t* codes) const override {
    const int64_t per_word = shape().per_word(), depth = shape().depth;
    for (int64_t i = 0; i < depth / per_word; ++i) {
      const uint8_t* const words = parts_.weight.data.data() + (i * shape().rows + first) * 4;
      uint8_t* out = codes + i * per_word;
      for (int64_t r = 0; r < count; ++r, out += depth) {
        const uint32_t word = word_at(words, r);
        if (shape().bits == 8) {
          std::memcpy(out, &word, 4);
        } else {
          const uint64_t eight = spread_nibbles(word);
          std::memcpy(out, &eight, 8);
        }
      }
    }
  }

  void unpack_scales(int64_t first, int64_t count, float* scales) const override {
    read_columns(parts_.scales, {shape().groups(), shape().rows}, first, count, scales);
  }

  void unpack_zeros(int64_t first, int64_t count, int32_t* zeros) const override {
    const int64_t groups = shape().groups(), per_word = shape().per_word();
    const int mask = (1 << shape().bits) - 1;
    for (int64_t g = 0; g < groups; ++g) {
      const uint8_t* const words = parts_.zeros.data.data() + g * (shape().rows / per_word) * 4;
      for (int64_t r = 0; r < count; ++r) {
        const int64_t n = first + r;
        const auto shift = static_cast<int>(n % per_word) * shape().bits;
        const auto stored = static_cast<int>(word_at(words, n / per_word) >> shift);
        zeros[r * groups + g] = (stored + parts_.zeros_added) & mask;
      }
    }
  }

  GptqParts parts_;
};

}  // namespace

Result<std::unique_ptr<MatrixReader>> open_gptq_matrix(const TensorParts& parts, int64_t rows, int64_t depth,
                                                       const QuantizationConfig& config) {
  const CodeFormat& format = config.formats.front();
  const GroupedShape shape{rows, depth, format.bits, format.columns(depth)};
  const int64_t per_word = shape.per_word(), groups = shape.groups();
  if (depth % per_word != 0 || rows % per_word != 0) {
    return unsupported_model(parts.folder(),
                             "matrix {} of {} x {} can't be packed into words of {} codes, as GPTQ does",
                             shown(parts.stem()), rows, depth, per_word);
  }
  GptqParts found;
  found.weight = PAGODA_TRY(parts.integers(".qweight", "I32", {depth / per_word, rows}));
  found.zeros = PAGODA_TRY(parts.integers(".qzeros", "I32", {groups, rows / per_word}));
  const TensorParts::Shape scales_shape{groups, rows};
  found.scales = PAGODA_TRY(parts.floats(".scales", std::span(&scales_shape, 1)));
  found.zeros_added = config.zeros_minus_one ? 1 : 0;
  std::vector<int32_t> group_of;
  if (config.needs_group_index || parts.has(".g_idx")) {
    const IntegerPart index = PAGODA_TRY(parts.integers(".g_idx", "I32", {depth}));
    group_of = PAGODA_TRY(read_group_index(index, shape));
  }
  auto zero = uniform_code(found.zeros.data, shape.bits);
  if (zero) zero = (*zero + found.zeros_added) & ((1 << shape.bits) - 1);
  return std::unique_ptr<MatrixReader>(
      std::make_unique<GptqMatrix>(shape, zero, std::move(group_of), std::move(found)));
}

}  // namespace pagoda::model
