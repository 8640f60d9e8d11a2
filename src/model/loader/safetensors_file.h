// The container format safetensors: a JSON header with the place of every tensor, then the data.
// Source: the format section of github.com/huggingface/safetensors; what is refused follows its reference
// reader 0.8.0, and repeated keys are refused too. The header is read as a stream of events: no tree is built
// from hostile text.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mmap_file.h"
#include "base/result.h"

namespace pagoda::model {

struct SafetensorsTensor {
  std::string name;
  std::string dtype;           // "F32", "BF16", "I64", ...: one that the format defines
  std::vector<int64_t> shape;  // outermost first; at most 8 dimensions
  uint64_t offset = 0;         // of the data in the file
  std::span<const uint8_t> data;
};

class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const std::string& path);
  // `bytes` must outlive the result; `path` is for messages.
  static Result<SafetensorsFile> parse(std::string path, std::span<const uint8_t> bytes);

  const std::string& path() const noexcept { return path_; }
  uint64_t size() const noexcept { return bytes_.size(); }
  int64_t modified_ns() const noexcept { return file_ ? file_->modified_ns() : 0; }
  const std::vector<SafetensorsTensor>& tensors() const noexcept { return tensors_; }

 private:
  SafetensorsFile() = default;
  Result<void> place_tensors(uint64_t data_start);

  std::string path_;
  std::unique_ptr<MmapFile> file_;
  std::span<const uint8_t> bytes_;
  std::vector<SafetensorsTensor> tensors_;  // by data offset
};

}  // namespace pagoda::model
