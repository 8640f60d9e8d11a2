#include "quantize/writer/code_formats.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "tensor/half.h"

namespace pagoda::quantize {
namespace {

template <class T>
std::vector<uint8_t> bytes_of(const std::vector<T>& values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

OutTensor words(std::string name, std::vector<int64_t> shape, const std::vector<uint32_t>& values) {
  return tensor_of(std::move(name), "I32", std::move(shape), bytes_of(values));
}

// [groups, rows] in f16: both formats have groups outside.
OutTensor scales_of(const std::string& stem, const CodedMatrix& matrix) {
  const int64_t rows = matrix.shape.rows, groups = matrix.shape.groups();
  std::vector<uint16_t> scales(static_cast<size_t>(groups * rows));
  for (int64_t n = 0; n < rows; ++n) {
    for (int64_t g = 0; g < groups; ++g) {
      scales[static_cast<size_t>(g * rows + n)] = f32_to_f16(matrix.grid(n, g).scale);
    }
  }
  return tensor_of(stem + ".scales", "F16", {groups, rows}, bytes_of(scales));
}

// Zero points [groups, rows / per_word], each plus `added`; field_of(row) is its place in the word.
template <class FieldOf>
std::vector<uint32_t> pack_zeros(const CodedMatrix& matrix, int added, FieldOf field_of) {
  const int bits = matrix.shape.grid.bits;
  const int64_t rows = matrix.shape.rows, groups = matrix.shape.groups(), per_word = 32 / bits;
  const uint32_t mask = (uint32_t{1} << bits) - 1;
  std::vector<uint32_t> packed(static_cast<size_t>(groups * (rows / per_word)));
  for (int64_t n = 0; n < rows; ++n) {
    for (int64_t g = 0; g < groups; ++g) {
      const uint32_t zero = static_cast<uint32_t>(matrix.grid(n, g).zero + added) & mask;
      packed[static_cast<size_t>(g * (rows / per_word) + n / per_word)] |= zero << (bits * field_of(n));
    }
  }
  return packed;
}

}  // namespace

const char* gptq_format(bool symmetric) {
  return symmetric ? "gptq" : "gptq_v2";
}

std::vector<OutTensor> gptq_tensors(const std::string& stem, const CodedMatrix& matrix) {
  const CodedShape& shape = matrix.shape;
  const int bits = shape.grid.bits, per_word = 32 / bits;
  PAGODA_CHECK(shape.rows % per_word == 0 && shape.depth % per_word == 0, "{}: {} x {}", stem, shape.rows,
               shape.depth);
  std::vector<uint32_t> weight(static_cast<size_t>(shape.depth / per_word * shape.rows));
  for (int64_t n = 0; n < shape.rows; ++n) {
    const uint8_t* const codes = matrix.row_codes(n);
    for (int64_t k = 0; k < shape.depth; ++k) {
      weight[static_cast<size_t>(k / per_word * shape.rows + n)] |= uint32_t{codes[k]}
                                                                    << (bits * (k % per_word));
    }
  }
  const int added = shape.grid.symmetric ? -1 : 0;
  const auto zeros = pack_zeros(matrix, added, [&](int64_t n) { return static_cast<int>(n % per_word); });
  std::vector<uint32_t> groups(matrix.group_of.begin(), matrix.group_of.end());
  std::vector<OutTensor> out;
  out.push_back(words(stem + ".qweight", {shape.depth / per_word, shape.rows}, weight));
  out.push_back(words(stem + ".qzeros", {shape.groups(), shape.rows / per_word}, zeros));
  out.push_back(words(stem + ".g_idx", {shape.depth}, groups));
  out.push_back(scales_of(stem, matrix));
  return out;
}

std::vector<OutTensor> awq_tensors(const std::string& stem, const CodedMatrix& matrix) {
  // The nibble that output 8 c + i has in word c.
  constexpr int64_t kPerWord = 8;
  constexpr std::array<int, kPerWord> kNibbleOf = {0, 4, 1, 5, 2, 6, 3, 7};
  const CodedShape& shape = matrix.shape;
  PAGODA_CHECK(shape.rows % kPerWord == 0 && shape.grid.bits == 4, "{}: {} rows", stem, shape.rows);
  const auto nibble = [&](int64_t n) { return kNibbleOf[static_cast<size_t>(n % kPerWord)]; };
  const int64_t per_row = shape.rows / kPerWord;
  std::vector<uint32_t> weight(static_cast<size_t>(shape.depth * per_row));
  for (int64_t n = 0; n < shape.rows; ++n) {
    const uint8_t* const codes = matrix.row_codes(n);
    for (int64_t k = 0; k < shape.depth; ++k) {
      weight[static_cast<size_t>(k * per_row + n / kPerWord)] |= uint32_t{codes[k]} << (4 * nibble(n));
    }
  }
  std::vector<OutTensor> out;
  out.push_back(words(stem + ".qweight", {shape.depth, per_row}, weight));
  out.push_back(words(stem + ".qzeros", {shape.groups(), per_row}, pack_zeros(matrix, 0, nibble)));
  out.push_back(scales_of(stem, matrix));
  return out;
}

ChannelCodes round_channels(const float* values, int64_t rows, int64_t depth, const std::string& dtype,
                            ComputePool& pool) {
  ChannelCodes out{rows, depth, {}, {}, dtype};
  out.codes.resize(static_cast<size_t>(rows * depth));
  out.scales.resize(static_cast<size_t>(rows));
  const bool bf16 = dtype == "BF16";
  pool.run(static_cast<int>(rows), [&](int row, int) {
    const float* const in = values + row * depth;
    int8_t* const codes = out.codes.data() + row * depth;
    float most = 0;
    for (int64_t k = 0; k < depth; ++k) most = std::max(most, std::fabs(in[k]));
    // The codes are those of the scale as it is stored; 1e-5 as in fit_grid.
    const float exact = std::max(most / 127.0f, 1e-5f);
    const uint16_t stored = bf16 ? f32_to_bf16(exact) : f32_to_f16(exact);
    const float scale = bf16 ? bf16_to_f32(stored) : f16_to_f32(stored);
    out.scales[static_cast<size_t>(row)] = stored;
    for (int64_t k = 0; k < depth; ++k) {
      codes[k] = static_cast<int8_t>(std::clamp(std::nearbyint(in[k] / scale), -127.0f, 127.0f));
    }
  });
  return out;
}

std::vector<OutTensor> channel_tensors(const std::string& stem, const ChannelCodes& matrix) {
  std::vector<OutTensor> out;
  out.push_back(tensor_of(stem + ".weight_scale", matrix.dtype, {matrix.rows, 1}, bytes_of(matrix.scales)));
  out.push_back(tensor_of(stem + ".weight", "I8", {matrix.rows, matrix.depth}, bytes_of(matrix.codes)));
  return out;
}

}  // namespace pagoda::quantize
