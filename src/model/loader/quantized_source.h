// The tensors of a quantised Hugging Face folder: X.weight is put together from X.qweight, X.scales and so
// on; matrices that are there as floats stay floats.
#pragma once

#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "model/loader/quantization_config.h"
#include "model/loader/safetensors_source.h"
#include "model/loader/tensor_parts.h"
#include "model/tensor_source.h"

namespace pagoda::model {

class QuantizedSource final : public TensorSource {
 public:
  // kCorruptFile when a matrix is there both quantised and as floats.
  static Result<std::unique_ptr<QuantizedSource>> create(std::unique_ptr<SafetensorsSource> files,
                                                         QuantizationConfig config);

  std::vector<TensorInfo> list() const override { return tensors_; }
  bool contains(const std::string& name) const override;
  Result<std::unique_ptr<MatrixReader>> matrix(const std::string& name, int64_t rows,
                                               int64_t depth) const override;
  Result<std::vector<float>> vector(const std::string& name, int64_t size) const override {
    return files_->vector(name, size);
  }

 private:
  QuantizedSource(std::unique_ptr<SafetensorsSource> files, QuantizationConfig config)
      : files_(std::move(files)), config_(std::move(config)) {}
  Result<void> find_matrices();
  Result<std::unique_ptr<MatrixReader>> open(const TensorParts& parts, int64_t rows, int64_t depth) const;
  // The parts of a matrix whose codes are in `codes`, as one tensor.
  TensorInfo describe(const std::string& stem, const TensorInfo& codes) const;
  int64_t packed_depth(const std::string& stem, int64_t room) const;
  bool is_part(const TensorInfo& tensor) const;

  std::unique_ptr<SafetensorsSource> files_;
  QuantizationConfig config_;
  std::unordered_set<std::string> quantised_;  // names without ".weight"
  std::vector<TensorInfo> tensors_;
};

}  // namespace pagoda::model
