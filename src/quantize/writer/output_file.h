// A file that is there under its name complete or not at all.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace pagoda::quantize {

// Writes "<path>.tmp", which commit() makes durable and renames to `path`. Without commit() nothing is left.
class OutputFile {
 public:
  static Result<OutputFile> create(const std::string& path);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  // kIo with the system's reason, as for a full disk.
  Result<void> append(std::span<const uint8_t> bytes);
  Result<void> append(std::string_view text);
  uint64_t size() const noexcept { return size_; }
  Result<void> commit();

 private:
  OutputFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::string path_;
  int fd_ = -1;
  uint64_t size_ = 0;
};

// The whole file at once.
Result<void> write_text_file(const std::string& path, std::string_view text);
// Makes the entries of a folder durable.
Result<void> sync_folder(const std::string& path);

}  // namespace pagoda::quantize
