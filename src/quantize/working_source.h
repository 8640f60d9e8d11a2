// The weights of a model while they are being changed.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/tensor_source.h"

namespace pagoda::quantize {

// `source`, whose matrices are read as floats whatever their format, with some tensors replaced.
class WorkingSource final : public model::TensorSource {
 public:
  // `source` must outlive it.
  explicit WorkingSource(const model::TensorSource& source) : source_(source) {}

  void set_matrix(const std::string& name, int64_t rows, int64_t depth, std::vector<float> values);
  void set_vector(const std::string& name, std::vector<float> values);
  // Forgets what was set for tensors whose names begin so.
  void reset(const std::string& prefix);

  std::vector<model::TensorInfo> list() const override { return source_.list(); }
  bool contains(const std::string& name) const override { return source_.contains(name); }
  Result<std::unique_ptr<model::MatrixReader>> matrix(const std::string& name, int64_t rows,
                                                      int64_t depth) const override;
  Result<std::vector<float>> vector(const std::string& name, int64_t size) const override;

 private:
  struct Matrix {
    int64_t rows = 0, depth = 0;
    std::shared_ptr<const std::vector<float>> values;
  };
  const model::TensorSource& source_;
  std::unordered_map<std::string, Matrix> matrices_;
  std::unordered_map<std::string, std::vector<float>> vectors_;
};

}  // namespace pagoda::quantize
