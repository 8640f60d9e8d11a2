#include "model/loader/tensor_parts.h"

#include <algorithm>

#include "model/loader/file_error.h"
#include "model/loader/float_matrix.h"

namespace pagoda::model {

void FloatPart::read(int64_t first, int64_t count, float* values) const {
  read_floats(type, data.data() + first * static_cast<int64_t>(dtype_bytes(type)), count, values);
}

void read_columns(const FloatPart& part, MatrixSize size, int64_t first, int64_t count, float* values) {
  std::vector<float> line(static_cast<size_t>(count));
  for (int64_t i = 0; i < size.lines; ++i) {
    part.read(i * size.width + first, count, line.data());
    for (int64_t c = 0; c < count; ++c) values[c * size.lines + i] = line[static_cast<size_t>(c)];
  }
}

Result<const SafetensorsSource::Place*> TensorParts::find(std::string_view suffix,
                                                          std::span<const Shape> shapes) const {
  const std::string name = stem_ + std::string(suffix);
  const SafetensorsSource::Place* const place = source_.place(name);
  if (place == nullptr) return corrupt_file(source_.folder(), "tensor {} is missing", shown(name));
  const SafetensorsTensor& tensor = *place->tensor;
  if (std::find(shapes.begin(), shapes.end(), tensor.shape) == shapes.end()) {
    return corrupt_file(place->file->path(), "tensor {} at offset {} has shape [{}] instead of [{}]",
                        shown(name), tensor.offset, number_list(tensor.shape), number_list(shapes[0]));
  }
  return place;
}

Result<IntegerPart> TensorParts::integers(std::string_view suffix, std::string_view dtype,
                                          const Shape& shape) const {
  const SafetensorsSource::Place& place = *PAGODA_TRY(find(suffix, std::span(&shape, 1)));
  const SafetensorsTensor& tensor = *place.tensor;
  std::string description =
      fmt::format("{}: tensor {} at offset {}", place.file->path(), shown(tensor.name), tensor.offset);
  if (tensor.dtype != dtype) {
    return make_error(ErrorKind::kUnsupportedModel,
                      fmt::format("{} has dtype {} instead of {}", description, tensor.dtype, dtype));
  }
  return IntegerPart{place.file, tensor.data, tensor.shape, std::move(description)};
}

Result<FloatPart> TensorParts::floats(std::string_view suffix, std::span<const Shape> shapes) const {
  const SafetensorsSource::Place& place = *PAGODA_TRY(find(suffix, shapes));
  const auto type = float_dtype(place.tensor->dtype);
  if (!type) {
    return unsupported_model(place.file->path(),
                             "tensor {} at offset {} has dtype {}; F32, F16 and BF16 can be run",
                             shown(place.tensor->name), place.tensor->offset, place.tensor->dtype);
  }
  return FloatPart{place.file, place.tensor->data, *type};
}

std::string_view TensorParts::dtype(std::string_view suffix) const {
  const SafetensorsSource::Place* const place = source_.place(stem_ + std::string(suffix));
  return place == nullptr ? std::string_view() : std::string_view(place->tensor->dtype);
}

}  // namespace pagoda::model
