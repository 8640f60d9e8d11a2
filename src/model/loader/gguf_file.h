// The container format GGUF, versions 2 and 3: keys with typed values, a table of tensors, and their data.
// Source: ggml docs/gguf.md. Everything in a file is distrusted: parsing reads no byte outside it, follows no
// count that the remaining bytes can't hold, and copies nothing but the two tables.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mmap_file.h"
#include "base/result.h"

namespace pagoda::model {

enum class GgufType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

// A value of the key table, not yet decoded. `bytes` point into the file.
struct GgufValue {
  GgufType type = GgufType::kUint8;
  GgufType element = GgufType::kUint8;  // of an array
  uint64_t count = 0;                   // of an array
  std::span<const uint8_t> bytes;       // of a string: its characters; of an array: all elements
  uint64_t offset = 0;                  // of the value in the file
};

// How a tensor type lies in a file. `name` is that of ggml.
struct GgmlType {
  std::string_view name;
  uint32_t block_elements = 1;
  uint32_t block_bytes = 1;
};
// Null for numbers that never had a meaning or lost it.
const GgmlType* find_ggml_type(uint32_t id);

struct GgufTensor {
  std::string_view name;                     // at most 63 printable characters, into the file
  uint32_t type = 0;                         // known to find_ggml_type
  int num_dims = 0;                          // 1..4
  std::array<uint64_t, 4> dims{1, 1, 1, 1};  // as in the file: innermost first
  uint64_t info_offset = 0;                  // of the table entry in the file
  uint64_t offset = 0;                       // of the data in the file
  std::span<const uint8_t> data;
};

// One file. Immutable and shared by threads once parsed. Numbers of any width come back widened; a key of a
// type that does not fit the question is an error, an absent key is nullopt.
class GgufFile {
 public:
  static Result<GgufFile> open(const std::string& path);
  // `bytes` must outlive the result; `path` is for messages.
  static Result<GgufFile> parse(std::string path, std::span<const uint8_t> bytes);

  const std::string& path() const noexcept { return path_; }
  uint32_t version() const noexcept { return version_; }
  uint64_t size() const noexcept { return bytes_.size(); }
  int64_t modified_ns() const noexcept { return file_ ? file_->modified_ns() : 0; }
  const std::vector<GgufTensor>& tensors() const noexcept { return tensors_; }

  // In the order of the file.
  std::vector<std::string_view> keys() const;
  const GgufValue* find(std::string_view key) const;
  Result<std::optional<int64_t>> integer(std::string_view key) const;
  Result<std::optional<double>> real(std::string_view key) const;  // integers count as reals
  Result<std::optional<bool>> boolean(std::string_view key) const;
  Result<std::optional<std::string_view>> string(std::string_view key) const;
  Result<std::optional<std::vector<std::string_view>>> strings(std::string_view key) const;
  Result<std::optional<std::vector<float>>> floats(std::string_view key) const;
  Result<std::optional<std::vector<int64_t>>> integers(std::string_view key) const;  // bools count as 0 and 1

 private:
  friend class GgufParser;
  GgufFile() = default;
  // Null when absent; an error when the value is no array of `expected` (a word for the message).
  Error wrong_type(std::string_view key, const GgufValue& value, std::string_view expected) const;

  std::string path_;
  std::unique_ptr<MmapFile> file_;
  std::span<const uint8_t> bytes_;
  uint32_t version_ = 0;
  std::unordered_map<std::string_view, GgufValue> values_;
  std::vector<GgufTensor> tensors_;
};

}  // namespace pagoda::model
