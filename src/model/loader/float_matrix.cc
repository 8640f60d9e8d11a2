#include "model/loader/float_matrix.h"

#include <cmath>
#include <cstring>

#include "base/check.h"
#include "model/loader/file_error.h"
#include "tensor/half.h"

namespace pagoda::model {

std::optional<DType> float_dtype(std::string_view name) {
  if (name == "F32") return DType::kF32;
  if (name == "F16") return DType::kF16;
  if (name == "BF16") return DType::kBF16;
  return std::nullopt;
}

void read_floats(DType type, const uint8_t* data, int64_t count, float* values) {
  if (type == DType::kF32) {
    std::memcpy(values, data, static_cast<size_t>(count) * 4);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, data + i * 2, 2);
    values[i] = type == DType::kF16 ? f16_to_f32(bits) : bf16_to_f32(bits);
  }
}

MatrixReader::Range FloatMatrix::code_range(int64_t, int64_t) const {
  PAGODA_CHECK(false, "{} holds no codes", place_.description);
}

void FloatMatrix::read_codes(int64_t, int64_t, uint8_t*, float*, float*) const {
  PAGODA_CHECK(false, "{} holds no codes", place_.description);
}

void FloatMatrix::read_values(int64_t first, int64_t count, float* values) const {
  PAGODA_CHECK(first >= 0 && count >= 0 && first + count <= place_.rows);
  const int64_t row_bytes = place_.depth * static_cast<int64_t>(dtype_bytes(type_));
  for (int64_t r = 0; r < count; ++r) {
    const int64_t stored = stored_row(first + r, place_.interleaved_head_dim);
    read_floats(type_, place_.data.data() + stored * row_bytes, place_.depth, values + r * place_.depth);
  }
}

void FloatMatrix::read_transposed(int64_t first, int64_t count, float* values) const {
  PAGODA_CHECK(first >= 0 && count >= 0 && first + count <= place_.depth);
  const auto item = static_cast<int64_t>(dtype_bytes(type_));
  std::vector<float> piece(static_cast<size_t>(count));
  for (int64_t r = 0; r < place_.rows; ++r) {
    const int64_t stored = stored_row(r, place_.interleaved_head_dim);
    read_floats(type_, place_.data.data() + (stored * place_.depth + first) * item, count, piece.data());
    for (int64_t c = 0; c < count; ++c) values[c * place_.rows + r] = piece[static_cast<size_t>(c)];
  }
}

Result<void> check_finite(std::span<const float> values, std::string_view path, std::string_view name,
                          uint64_t offset) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    return corrupt_file(path, "tensor {} at offset {}: element {} is {}, not a finite number", shown(name),
                        offset, i, values[i]);
  }
  return {};
}

}  // namespace pagoda::model
