// The tensors of a Hugging Face folder: model.safetensors, or the shards that model.safetensors.index.json
// names.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/checkpoint.h"
#include "model/loader/safetensors_file.h"
#include "model/tensor_source.h"

namespace pagoda::model {

class SafetensorsSource final : public TensorSource {
 public:
  // `folder` holds the files. The index is distrusted: a shard must be a plain file name in the folder
  // itself.
  static Result<std::unique_ptr<SafetensorsSource>> open(const std::string& folder);

  struct Place {
    std::shared_ptr<const SafetensorsFile> file;
    const SafetensorsTensor* tensor = nullptr;
  };

  const std::string& folder() const noexcept { return folder_; }
  const std::vector<ModelFile>& files() const noexcept { return files_; }
  // Null when absent.
  const Place* place(const std::string& name) const;

  std::vector<TensorInfo> list() const override;
  bool contains(const std::string& name) const override { return tensors_.contains(name); }
  Result<std::unique_ptr<MatrixReader>> matrix(const std::string& name, int64_t rows,
                                               int64_t depth) const override;
  Result<std::vector<float>> vector(const std::string& name, int64_t size) const override;

 private:
  SafetensorsSource() = default;
  Result<void> add(const std::shared_ptr<const SafetensorsFile>& file, const SafetensorsTensor& tensor);
  Result<void> add_sharded(const std::string& folder, const std::string& index_path);
  Result<Place> find(const std::string& name, const std::vector<int64_t>& expected) const;

  std::string folder_;
  std::vector<ModelFile> files_;
  std::vector<std::string> order_;
  std::unordered_map<std::string, Place> tensors_;
};

}  // namespace pagoda::model
