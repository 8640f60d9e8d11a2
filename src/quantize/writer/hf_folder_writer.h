// A Hugging Face folder in the making: one file of weights for each layer and one for the rest.
//
// All is written into "<out>.partial", which finish() renames to `out`. What a run that was ended has written
// there stays, and the next run of the same model with the same options goes on behind it.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "model/checkpoint.h"
#include "quantize/options.h"
#include "quantize/writer/tensor_bytes.h"

namespace pagoda::quantize {

class HfFolderWriter {
 public:
  // `key` says all that the result depends on beside the model. kInvalidArgument when `out` is there already,
  // when "<out>.partial" is of another model or key, or is being written. `checkpoint` must outlive the
  // writer.
  static Result<HfFolderWriter> open(const std::string& out, const model::Checkpoint& checkpoint,
                                     const std::string& key);
  HfFolderWriter(HfFolderWriter&& other) noexcept;
  HfFolderWriter& operator=(HfFolderWriter&&) = delete;
  ~HfFolderWriter();

  const std::string& folder() const noexcept { return partial_; }
  int num_parts() const noexcept { return num_parts_; }
  // Layer i is part i; the last part has what belongs to no layer.
  std::string part_path(int part) const;
  bool has_part(int part) const;
  // For what a run keeps until its end: finish() removes it.
  std::string scratch_path(const std::string& name) const;
  // Names are the model's; the file gets those of its family.
  Result<void> write_part(int part, std::vector<OutTensor> tensors);
  // The other files; then the folder gets its name.
  Result<void> finish(const Options& options, const std::string& dtype);

 private:
  HfFolderWriter(std::string out, const model::Checkpoint& checkpoint);
  Result<void> lock(const std::string& state);
  Result<void> write_index() const;
  Result<void> write_texts(const Options& options, const std::string& dtype) const;
  Result<void> copy_files() const;
  void remove_scratch() const;

  std::string out_, partial_;
  const model::Checkpoint* checkpoint_;
  int num_parts_ = 0;
  int lock_fd_ = -1;
};

}  // namespace pagoda::quantize
