// File work of the packed cache: hashes, reading, replacing a file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "model/checkpoint.h"

namespace pagoda::model {

// 64 bits that tell accidents apart; no defence against somebody who wants a collision, who could as well
// change the file. Chains: the hash so far is the seed of the next.
uint64_t hash_bytes(std::span<const uint8_t> bytes, uint64_t seed);
// The same of many bytes, with all threads of the pool: the hash of the hashes of pieces, another value than
// that of the whole.
uint64_t hash_pieces(std::span<const uint8_t> bytes, ComputePool& pool);

// A file that is read by offset. Threads may share it.
class InputFile {
 public:
  // kIo with the system's reason when it can't be opened or is no regular file.
  static Result<InputFile> open(const std::string& path);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile();

  uint64_t size() const noexcept { return size_; }
  int64_t modified_ns() const noexcept { return modified_ns_; }
  // Fills `out` from `offset` on; kIo also when the file ends before.
  Result<void> read(uint64_t offset, std::span<uint8_t> out) const;
  // The same with all threads of the pool.
  Result<void> read(uint64_t offset, std::span<uint8_t> out, ComputePool& pool) const;

 private:
  InputFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::string path_;
  int fd_ = -1;
  uint64_t size_ = 0;
  int64_t modified_ns_ = 0;
};

// Hash of the file's first 4 MiB, where a model's configuration and tables of tensors lie, of 256 samples of
// 4 KiB spread over the rest, and of its end. kIo when it can't be read or is not the file that was opened,
// by size or time.
Result<uint64_t> hash_file_samples(const ModelFile& file);

// Writes the pieces to "<path>.tmp", waits until the disk has them, and renames that to `path`. A lock on the
// second name keeps processes that start together from writing the same file: all but one get kOverloaded.
// What a crash left behind is overwritten by the next. kIo with the system's reason; no second file stays
// then.
Result<void> replace_file(const std::string& path, const std::vector<std::span<const uint8_t>>& pieces);

}  // namespace pagoda::model
