#include "quantize/writer/float_tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tensor/half.h"

namespace pagoda::quantize {
namespace {

// Gemma's folders hold w where GGUF files and the formula have 1 + w.
bool stored_minus_one(const model::ModelConfig& config, const std::string& name) {
  using model::Architecture;
  const Architecture family = config.architecture;
  const bool gemma = family == Architecture::kGemma2 || family == Architecture::kGemma3;
  return gemma && !config.norm_weight_plus_one && name.ends_with("norm.weight");
}

Result<std::vector<uint8_t>> convert(std::span<const float> values, const std::string& name, bool bf16) {
  constexpr float kLargestHalf = 65504.0f;
  std::vector<uint8_t> bytes;
  bytes.reserve(values.size() * 2);
  for (const float value : values) {
    if (!std::isfinite(value) || (!bf16 && std::fabs(value) > kLargestHalf)) {
      return make_error(ErrorKind::kUnsupportedModel,
                        fmt::format("{} has the value {}, which float16 can't hold", name, value));
    }
    const uint16_t half = bf16 ? f32_to_bf16(value) : f32_to_f16(value);
    bytes.push_back(static_cast<uint8_t>(half & 0xff));
    bytes.push_back(static_cast<uint8_t>(half >> 8));
  }
  return bytes;
}

}  // namespace

std::string float_dtype_of(const model::Checkpoint& checkpoint) {
  for (const model::TensorInfo& info : checkpoint.tensors->list()) {
    if (info.name == "model.embed_tokens.weight") return info.format == "BF16" ? "BF16" : "F16";
  }
  return "F16";
}

Result<OutTensor> float_tensor(const model::ModelConfig& config, const model::TensorSource& tensors,
                               const model::RequiredTensor& tensor, const std::string& dtype) {
  const bool bf16 = dtype == "BF16";
  if (tensor.depth == 0) {
    auto values = PAGODA_TRY(tensors.vector(tensor.name, tensor.rows));
    if (stored_minus_one(config, tensor.name)) {
      for (float& value : values) value -= 1.0f;
    }
    auto bytes = PAGODA_TRY(convert(values, tensor.name, bf16));
    return tensor_of(tensor.name, dtype, {tensor.rows}, std::move(bytes));
  }
  const std::shared_ptr<const model::MatrixReader> reader =
      PAGODA_TRY(tensors.matrix(tensor.name, tensor.rows, tensor.depth));
  OutTensor out{tensor.name, dtype, {tensor.rows, tensor.depth}, 0, {}};
  out.bytes = static_cast<uint64_t>(tensor.rows * tensor.depth) * 2;
  out.write = [reader, bf16, name = tensor.name](const ByteSink& sink) -> Result<void> {
    constexpr int64_t kRowsAtOnce = 64;
    std::vector<float> rows;
    for (int64_t first = 0; first < reader->rows(); first += kRowsAtOnce) {
      const int64_t count = std::min(kRowsAtOnce, reader->rows() - first);
      rows.resize(static_cast<size_t>(count * reader->depth()));
      reader->read_values(first, count, rows.data());
      const auto bytes = PAGODA_TRY(convert(rows, name, bf16));
      PAGODA_TRY(sink(bytes));
    }
    reader->release_pages();
    return {};
  };
  return out;
}

}  // namespace pagoda::quantize
