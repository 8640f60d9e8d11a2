#include "model/loader/quantized_source.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "model/loader/awq_matrix.h"
#include "model/loader/compressed_matrix.h"
#include "model/loader/file_error.h"
#include "model/loader/gptq_matrix.h"
#include "model/loader/tensor_parts.h"

namespace pagoda::model {
namespace {

constexpr std::string_view kWeight = ".weight", kWords = ".qweight", kPacked = ".weight_packed";

// What may lie beside the codes of a matrix: it is read with them, or only matters to kernels that round
// activations by scales of the file.
constexpr std::array<std::string_view, 13> kParts = {".qzeros",
                                                     ".scales",
                                                     ".g_idx",
                                                     ".weight_scale",
                                                     ".weight_zero_point",
                                                     ".weight_g_idx",
                                                     ".weight_shape",
                                                     ".input_scale",
                                                     ".input_zero_point",
                                                     ".output_scale",
                                                     ".output_zero_point",
                                                     ".SCB",
                                                     ".weight_format"};

// "a.b.qweight" -> "a.b" for the ending ".qweight"; empty when the name ends otherwise.
std::string stem_of(const std::string& name, std::string_view ending) {
  return name.ends_with(ending) ? name.substr(0, name.size() - ending.size()) : std::string();
}

// The stem of a matrix if `tensor` holds its codes.
std::string quantised_stem(const TensorInfo& tensor, QuantMethod method) {
  switch (method) {
    case QuantMethod::kGptq:
    case QuantMethod::kAwq:
      return stem_of(tensor.name, kWords);
    case QuantMethod::kCompressedTensors:
      if (tensor.name.ends_with(kPacked)) return stem_of(tensor.name, kPacked);
      [[fallthrough]];
    case QuantMethod::kBitsAndBytes:
      return tensor.format == "I8" && tensor.shape.size() == 2 ? stem_of(tensor.name, kWeight)
                                                               : std::string();
  }
  return {};
}

bool is_zero(const SafetensorsTensor& tensor) {
  return std::all_of(tensor.data.begin(), tensor.data.end(), [](uint8_t byte) { return byte == 0; });
}

}  // namespace

Result<std::unique_ptr<QuantizedSource>> QuantizedSource::create(std::unique_ptr<SafetensorsSource> files,
                                                                 QuantizationConfig config) {
  std::unique_ptr<QuantizedSource> source(new QuantizedSource(std::move(files), std::move(config)));
  PAGODA_TRY(source->find_matrices());
  return source;
}

Result<void> QuantizedSource::find_matrices() {
  const std::vector<TensorInfo> stored = files_->list();
  for (const TensorInfo& tensor : stored) {
    std::string stem = quantised_stem(tensor, config_.method);
    if (stem.empty()) continue;
    if (!tensor.name.ends_with(kWeight) && files_->contains(stem + std::string(kWeight))) {
      return corrupt_file(files_->folder(), "tensors {} and {} are both there", shown(tensor.name),
                          shown(stem + std::string(kWeight)));
    }
    quantised_.insert(std::move(stem));
  }
  for (const TensorInfo& tensor : stored) {
    const std::string stem = quantised_stem(tensor, config_.method);
    if (!stem.empty()) {
      tensors_.push_back(describe(stem, tensor));
    } else if (!is_part(tensor)) {
      tensors_.push_back(tensor);
    }
  }
  return {};
}

TensorInfo QuantizedSource::describe(const std::string& stem, const TensorInfo& codes) const {
  TensorInfo info{stem + std::string(kWeight), codes.shape, std::string(quant_method_name(config_.method)),
                  codes.bytes};
  for (const std::string_view part : kParts) {
    if (const auto* const place = files_->place(stem + std::string(part))) {
      info.bytes += place->tensor->data.size();
    }
  }
  if (config_.formats.size() == 1) info.format += " " + code_format_name(config_.formats[0]);
  if (codes.shape.size() != 2 || config_.formats.empty() || codes.format != "I32") return info;
  const int64_t per_word = 32 / config_.formats[0].bits;
  switch (config_.method) {
    case QuantMethod::kGptq:
      info.shape = {codes.shape[1], codes.shape[0] * per_word};
      break;
    case QuantMethod::kAwq:
      info.shape = {codes.shape[1] * per_word, codes.shape[0]};
      break;
    case QuantMethod::kCompressedTensors:
      info.shape = {codes.shape[0], packed_depth(stem, codes.shape[1] * per_word)};
      break;
    case QuantMethod::kBitsAndBytes:
      break;
  }
  return info;
}

// The columns that weight_shape names, if they fit words for `room` of them.
int64_t QuantizedSource::packed_depth(const std::string& stem, int64_t room) const {
  const auto* const shape = files_->place(stem + ".weight_shape");
  int64_t depth = 0;
  if (shape == nullptr || shape->tensor->data.size() != 2 * sizeof(depth)) return room;
  std::memcpy(&depth, shape->tensor->data.data() + sizeof(depth), sizeof(depth));
  return depth > 0 && depth <= room ? depth : room;
}

bool QuantizedSource::is_part(const TensorInfo& tensor) const {
  for (const std::string_view part : kParts) {
    if (tensor.name.ends_with(part) && quantised_.contains(stem_of(tensor.name, part))) return true;
  }
  // Scales of an 8-bit key-value cache, which this program does not have.
  if (config_.method == QuantMethod::kCompressedTensors &&
      (tensor.name.ends_with(".k_scale") || tensor.name.ends_with(".v_scale"))) {
    return true;
  }
  // Old writers gave every matrix a bias, of zeros where the model has none.
  const std::string stem = stem_of(tensor.name, ".bias");
  return quantised_.contains(stem) && is_zero(*files_->place(tensor.name)->tensor);
}

bool QuantizedSource::contains(const std::string& name) const {
  return files_->contains(name) || quantised_.contains(stem_of(name, kWeight));
}

Result<std::unique_ptr<MatrixReader>> QuantizedSource::matrix(const std::string& name, int64_t rows,
                                                              int64_t depth) const {
  const std::string stem = stem_of(name, kWeight);
  const bool in_words = config_.method == QuantMethod::kGptq || config_.method == QuantMethod::kAwq;
  if (!quantised_.contains(stem)) {
    if (!stem.empty() && in_words && !files_->contains(name)) {
      return corrupt_file(files_->folder(), "tensor {} is missing, and so is {}",
                          shown(stem + std::string(kWords)), shown(name));
    }
    return files_->matrix(name, rows, depth);
  }
  auto reader = PAGODA_TRY(open(TensorParts(*files_, stem), rows, depth));
  // Rows of the embedding are looked up, and nothing puts their columns back.
  if (stem == "model.embed_tokens" && !reader->column_order().empty()) {
    return unsupported_model(files_->folder(), "matrix {} is in act-order, which can't be run", shown(stem));
  }
  return reader;
}

Result<std::unique_ptr<MatrixReader>> QuantizedSource::open(const TensorParts& parts, int64_t rows,
                                                            int64_t depth) const {
  switch (config_.method) {
    case QuantMethod::kGptq:
      return open_gptq_matrix(parts, rows, depth, config_);
    case QuantMethod::kAwq:
      return open_awq_matrix(parts, rows, depth, config_);
    case QuantMethod::kCompressedTensors:
      return open_compressed_matrix(parts, rows, depth, config_);
    case QuantMethod::kBitsAndBytes:
      return open_bits_and_bytes_matrix(parts, rows, depth);
  }
  return corrupt_file(files_->folder(), "matrix {} can't be read", shown(parts.stem()));
}

}  // namespace pagoda::model
