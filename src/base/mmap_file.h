// A read-only memory-mapped file.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace pagoda {

// Owns the mapping; move-only. Threads may read it concurrently. An empty file maps to an empty span.
class MmapFile {
 public:
  // kIo with the path and the system's reason when the file cannot be opened, is no regular file or cannot be
  // mapped.
  static Result<MmapFile> open(const std::string& path);

  MmapFile(MmapFile&& other) noexcept;
  MmapFile& operator=(MmapFile&& other) noexcept;
  MmapFile(const MmapFile&) = delete;
  MmapFile& operator=(const MmapFile&) = delete;
  ~MmapFile();

  std::span<const uint8_t> bytes() const noexcept { return {data_, size_}; }
  const std::string& path() const noexcept { return path_; }
  // When its content last changed, as of open(): nanoseconds since 1970.
  int64_t modified_ns() const noexcept { return modified_ns_; }
  // Tells the kernel that the pages wholly inside a part of some mapped file are no longer needed here. They
  // stay readable, and the file cache may keep them; they only stop counting as resident memory of this
  // process.
  static void release(std::span<const uint8_t> part) noexcept;

 private:
  MmapFile(std::string path, std::span<const uint8_t> bytes, int64_t modified_ns)
      : path_(std::move(path)), data_(bytes.data()), size_(bytes.size()), modified_ns_(modified_ns) {}
  std::string path_;
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
  int64_t modified_ns_ = 0;
};

// The time of a file's last change in nanoseconds since 1970.
int64_t modified_ns(const struct stat& info);

}  // namespace pagoda
