// Tensors under the names that the model asks for, where a file has other names, keeps several as one, or
// stores inputs first.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "model/tensor_source.h"

namespace pagoda::model {

struct TensorView {
  std::string name;    // as the model asks for it
  std::string stored;  // as the source has it; a tensor may have several views
  // Rows (of a vector: elements) [first, first + rows) of `total`; total 0: all of them.
  int64_t first = 0, rows = 0, total = 0;
  bool transposed = false;  // stored [depth, rows], as floats
};

class ViewSource final : public TensorSource {
 public:
  // Tensors that no view stands for keep their names.
  ViewSource(std::unique_ptr<TensorSource> source, std::vector<TensorView> views);

  std::vector<TensorInfo> list() const override;
  bool contains(const std::string& name) const override;
  Result<std::unique_ptr<MatrixReader>> matrix(const std::string& name, int64_t rows,
                                               int64_t depth) const override;
  Result<std::vector<float>> vector(const std::string& name, int64_t size) const override;

 private:
  std::unique_ptr<TensorSource> source_;
  std::vector<TensorView> views_;
  std::unordered_map<std::string, const TensorView*> by_name_;
  std::unordered_map<std::string, std::vector<const TensorView*>> by_stored_;
};

}  // namespace pagoda::model
