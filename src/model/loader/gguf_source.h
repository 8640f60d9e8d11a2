// The tensors of a GGUF file, or of a set of files that split_gguf made, under their Hugging Face names.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/config.h"
#include "model/loader/gguf_file.h"
#include "model/tensor_source.h"

namespace pagoda::model {

// "blk.3.attn_q.weight" -> "model.layers.3.self_attn.q_proj.weight". Names without a counterpart stay as they
// are.
std::string hf_tensor_name(std::string_view gguf_name, Architecture architecture);
// The same back; empty when there is none.
std::string gguf_tensor_name(std::string_view hf_name, Architecture architecture);

// The file at `path` and, when its key split.count says so, the other files of its set, found by their names
// (NAME-00001-of-00003.gguf). The first one holds the model's keys.
Result<std::vector<std::shared_ptr<const GgufFile>>> open_gguf_set(const std::string& path);

class GgufTensorSource final : public TensorSource {
 public:
  // kCorruptFile when two files of the set hold the same tensor. `files` is not empty.
  static Result<std::unique_ptr<GgufTensorSource>> create(std::vector<std::shared_ptr<const GgufFile>> files,
                                                          Architecture architecture);

  // Llama files store the rows of each q and k head in interleaved RoPE order; this undoes it. 0: nothing to
  // undo.
  void set_interleaved_head_dim(int64_t head_dim) { interleaved_head_dim_ = head_dim; }

  // Dimensions as stored, outermost first; empty when there is no such tensor.
  std::vector<int64_t> shape(const std::string& name) const;

  std::vector<TensorInfo> list() const override;
  bool contains(const std::string& name) const override { return tensors_.contains(name); }
  Result<std::unique_ptr<MatrixReader>> matrix(const std::string& name, int64_t rows,
                                               int64_t depth) const override;
  Result<std::vector<float>> vector(const std::string& name, int64_t size) const override;

 private:
  struct Place {
    std::shared_ptr<const GgufFile> file;
    const GgufTensor* tensor = nullptr;
  };
  GgufTensorSource() = default;
  Result<Place> find(const std::string& name, const std::vector<int64_t>& expected) const;
  // The head_dim to undo for this tensor, or 0.
  int64_t interleaved(std::string_view name) const;

  std::vector<std::string> order_;  // names in file order
  std::unordered_map<std::string, Place> tensors_;
  std::string first_path_;
  int64_t interleaved_head_dim_ = 0;
};

}  // namespace pagoda::model
