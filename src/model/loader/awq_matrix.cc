#include "model/loader/awq_matrix.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "model/loader/file_error.h"
#include "model/loader/grouped_matrix.h"

namespace pagoda::model {
namespace {

constexpr int64_t kPerWord = 8;
// Which nibble of a word holds output 8 c + i.
constexpr std::array<int, kPerWord> kNibbleOf = {0, 4, 1, 5, 2, 6, 3, 7};

struct AwqParts {
  IntegerPart weight, zeros;
  FloatPart scales;
};

class AwqMatrix final : public GroupedMatrix {
 public:
  AwqMatrix(const GroupedShape& shape, std::optional<int> zero, AwqParts parts)
      : GroupedMatrix(shape, zero, {}, parts.weight.description), parts_(std::move(parts)) {}

  void release_pages() const override {
    for (const auto data : {parts_.weight.data, parts_.zeros.data, parts_.scales.data}) {
      MmapFile::release(data);
    }
  }

 private:
  // Blocks of 8 inputs by 8 outputs: eight words in, eight bytes for each output out.
  void unpack_codes(int64_t first, int64_t count, uint8_t* codes) const override {
    const int64_t depth = shape().depth, words_per_row = shape().rows / kPerWord;
    for (int64_t k = 0; k < depth; k += kPerWord) {
      const int64_t columns = std::min(kPerWord, depth - k);
      for (int64_t c = first / kPerWord; c * kPerWord < first + count; ++c) {
        std::array<uint64_t, kPerWord> nibbles{};
        for (int64_t j = 0; j < columns; ++j) {
          const uint8_t* const words = parts_.weight.data.data() + (k + j) * words_per_row * 4;
          nibbles[static_cast<size_t>(j)] = spread_nibbles(word_at(words, c));
        }
        const int64_t begin = std::max(first, c * kPerWord);
        const int64_t end = std::min(first + count, (c + 1) * kPerWord);
        for (int64_t n = begin; n < end; ++n) {
          const int shift = kNibbleOf[static_cast<size_t>(n % kPerWord)] * 8;
          uint64_t row = 0;
          for (size_t j = 0; j < kPerWord; ++j) row |= (nibbles[j] >> shift & 15) << (8 * j);
          std::memcpy(codes + (n - first) * depth + k, &row, static_cast<size_t>(columns));
        }
      }
    }
  }

  void unpack_scales(int64_t first, int64_t count, float* scales) const override {
    read_columns(parts_.scales, {shape().groups(), shape().rows}, first, count, scales);
  }

  void unpack_zeros(int64_t first, int64_t count, int32_t* zeros) const override {
    const int64_t groups = shape().groups();
    for (int64_t g = 0; g < groups; ++g) {
      const uint8_t* const words = parts_.zeros.data.data() + g * (shape().rows / kPerWord) * 4;
      for (int64_t r = 0; r < count; ++r) {
        const int64_t n = first + r;
        const int shift = kNibbleOf[static_cast<size_t>(n % kPerWord)] * 4;
        zeros[r * groups + g] = static_cast<int32_t>(word_at(words, n / kPerWord) >> shift & 15);
      }
    }
  }

  AwqParts parts_;
};

}  // namespace

Result<std::unique_ptr<MatrixReader>> open_awq_matrix(const TensorParts& parts, int64_t rows, int64_t depth,
                                                      const QuantizationConfig& config) {
  const CodeFormat& format = config.formats.front();
  const GroupedShape shape{rows, depth, format.bits, format.columns(depth)};
  if (rows % kPerWord != 0) {
    return unsupported_model(parts.folder(), "matrix {} has {} outputs, no multiple of {}, as AWQ needs",
                             shown(parts.stem()), rows, kPerWord);
  }
  AwqParts found;
  found.weight = PAGODA_TRY(parts.integers(".qweight", "I32", {depth, rows / kPerWord}));
  found.zeros = PAGODA_TRY(parts.integers(".qzeros", "I32", {shape.groups(), rows / kPerWord}));
  const TensorParts::Shape scales_shape{shape.groups(), rows};
  found.scales = PAGODA_TRY(parts.floats(".scales", std::span(&scales_shape, 1)));
  const auto zero = uniform_code(found.zeros.data, shape.bits);
  return std::unique_ptr<MatrixReader>(std::make_unique<AwqMatrix>(shape, zero, std::move(found)));
}

}  // namespace pagoda::model
