#include "model/loader/safetensors_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "model/loader/file_error.h"

namespace pagoda::model {
namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the reference reader's limit
constexpr size_t kMaxDims = 8;

// Bytes of an element; 0 for names that the format does not define (its types below a byte are not in use).
uint64_t dtype_size(std::string_view dtype) {
  using Entry = std::pair<std::string_view, uint64_t>;
  static constexpr std::array<Entry, 17> kSizes = {{{"F32", 4},
                                                    {"F16", 2},
                                                    {"BF16", 2},
                                                    {"BOOL", 1},
                                                    {"U8", 1},
                                                    {"I8", 1},
                                                    {"F8_E5M2", 1},
                                                    {"F8_E4M3", 1},
                                                    {"F8_E8M0", 1},
                                                    {"I16", 2},
                                                    {"U16", 2},
                                                    {"I32", 4},
                                                    {"U32", 4},
                                                    {"F64", 8},
                                                    {"I64", 8},
                                                    {"U64", 8},
                                                    {"C64", 8}}};
  const auto found =
      std::find_if(kSizes.begin(), kSizes.end(), [&](const Entry& e) { return e.first == dtype; });
  return found == kSizes.end() ? 0 : found->second;
}

// One entry as the header gives it.
struct Entry {
  std::string name, dtype;
  std::vector<uint64_t> shape, range;
  bool has_dtype = false, has_shape = false, has_range = false;
};

// Accepts {name: {"dtype": string, "shape": [n...], "data_offsets": [begin, end]}, "__metadata__": {string:
// string}} and nothing else. A handler that returns false ends the parse; `error` then says why.
class HeaderHandler final : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<Entry> entries;
  std::string error;

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a bool"); }
  bool number_integer(number_integer_t value) override {
    return unexpected(fmt::format("the number {}", value));
  }
  bool number_float(number_float_t, const string_t& text) override {
    return unexpected("the number " + text);
  }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (level_ != Level::kNumbers) return unexpected(fmt::format("the number {}", value));
    if (numbers_->size() >= kMaxDims)
      return fail(fmt::format("has more than {} numbers in {}", kMaxDims, shown(field_)));
    numbers_->push_back(value);
    return true;
  }

  bool string(string_t& value) override {
    if (level_ == Level::kMetadata) return true;
    if (level_ != Level::kEntry || field_ != "dtype") return unexpected("a string");
    entries.back().dtype = value;
    return true;
  }

  bool start_object(size_t) override {
    if (level_ == Level::kStart) {
      level_ = Level::kTop;
    } else if (level_ == Level::kTop) {
      level_ = name_ == "__metadata__" ? Level::kMetadata : Level::kEntry;
      if (level_ == Level::kEntry) entries.push_back({.name = name_, .dtype = {}, .shape = {}, .range = {}});
    } else {
      return unexpected("an object");
    }
    return true;
  }

  bool key(string_t& value) override {
    if (level_ == Level::kTop) {
      name_ = value;
      return names_.insert(value).second || fail("appears twice");
    }
    field_ = value;
    if (level_ == Level::kMetadata) return true;
    Entry& entry = entries.back();
    bool* const seen = value == "dtype"          ? &entry.has_dtype
                       : value == "shape"        ? &entry.has_shape
                       : value == "data_offsets" ? &entry.has_range
                                                 : nullptr;
    if (seen == nullptr) return fail("has the unknown field " + shown(value));
    return !std::exchange(*seen, true) || fail("has the field " + shown(value) + " twice");
  }

  bool end_object() override {
    if (level_ == Level::kEntry) {
      const Entry& entry = entries.back();
      if (!entry.has_dtype || !entry.has_shape || !entry.has_range || entry.range.size() != 2) {
        return fail("lacks one of dtype, shape and the two data_offsets");
      }
    }
    level_ = level_ == Level::kTop ? Level::kStart : Level::kTop;
    return true;
  }

  bool start_array(size_t) override {
    if (level_ != Level::kEntry || field_ == "dtype") return unexpected("an array");
    numbers_ = field_ == "shape" ? &entries.back().shape : &entries.back().range;
    level_ = Level::kNumbers;
    return true;
  }

  bool end_array() override {
    level_ = Level::kEntry;
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) override {
    if (error.empty()) error = fmt::format("the header is not valid JSON at offset {}", 8 + position);
    return false;
  }

 private:
  enum class Level { kStart, kTop, kMetadata, kEntry, kNumbers };

  bool fail(std::string_view what) {
    error = level_ == Level::kStart ? fmt::format("the header {}", what)
                                    : fmt::format("header entry {} {}", shown(name_), what);
    return false;
  }
  bool unexpected(std::string_view what) {
    if (level_ == Level::kStart) return fail(fmt::format("is {}, not an object", what));
    if (level_ == Level::kTop) return fail(fmt::format("is {}, not an object", what));
    return fail(fmt::format("has {} where {} wants something else", what, shown(field_)));
  }

  Level level_ = Level::kStart;
  std::string name_, field_;
  std::vector<uint64_t>* numbers_ = nullptr;
  std::unordered_set<std::string> names_;
};

// Bytes that the shape needs; an error where it is impossible.
Result<uint64_t> bytes_needed(const std::string& path, const Entry& entry) {
  uint64_t bytes = dtype_size(entry.dtype);
  if (bytes == 0)
    return corrupt_file(path, "tensor {} has unknown dtype {}", shown(entry.name), shown(entry.dtype));
  bool empty = false;
  for (const uint64_t dim : entry.shape) {
    empty = empty || dim == 0;
    if (dim > static_cast<uint64_t>(INT64_MAX) || (dim != 0 && __builtin_mul_overflow(bytes, dim, &bytes))) {
      return corrupt_file(path, "tensor {} has impossible shape [{}]", shown(entry.name),
                          number_list(entry.shape));
    }
  }
  return empty ? 0 : bytes;
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::parse(std::string path, std::span<const uint8_t> bytes) {
  SafetensorsFile file;
  file.path_ = std::move(path);
  file.bytes_ = bytes;
  if (bytes.size() < 8) return corrupt_file(file.path_, "{} bytes are no safetensors file", bytes.size());
  uint64_t header_bytes;
  std::memcpy(&header_bytes, bytes.data(), 8);
  const uint64_t limit = std::min<uint64_t>(kMaxHeaderBytes, bytes.size() - 8);
  if (header_bytes > limit) {
    return corrupt_file(file.path_, "claims a header of {} bytes at offset 0; at most {} are possible",
                        header_bytes, limit);
  }
  HeaderHandler handler;
  const auto* const begin = reinterpret_cast<const char*>(bytes.data()) + 8;
  if (!nlohmann::json::sax_parse(begin, begin + header_bytes, &handler)) {
    return corrupt_file(file.path_, "{}", handler.error);
  }
  const uint64_t data_start = 8 + header_bytes, data_bytes = bytes.size() - data_start;
  for (Entry& entry : handler.entries) {
    const uint64_t needed = PAGODA_TRY(bytes_needed(file.path_, entry));
    const uint64_t first = entry.range[0], last = entry.range[1];
    if (first > last || last > data_bytes) {
      return corrupt_file(file.path_, "tensor {} lies at [{}, {}) of {} bytes of data", shown(entry.name),
                          first, last, data_bytes);
    }
    if (last - first != needed) {
      return corrupt_file(file.path_, "tensor {} needs {} bytes for {} [{}], but has {} at data offset {}",
                          shown(entry.name), needed, entry.dtype, number_list(entry.shape), last - first,
                          first);
    }
    SafetensorsTensor tensor{std::move(entry.name), std::move(entry.dtype), {}, data_start + first, {}};
    tensor.shape.assign(entry.shape.begin(), entry.shape.end());
    tensor.data = bytes.subspan(tensor.offset, needed);
    file.tensors_.push_back(std::move(tensor));
  }
  PAGODA_TRY(file.place_tensors(data_start));
  return file;
}

// The tensors must cover the data exactly: no hole, no overlap, nothing behind the last one.
Result<void> SafetensorsFile::place_tensors(uint64_t data_start) {
  std::sort(tensors_.begin(), tensors_.end(), [](const auto& a, const auto& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.data.size() < b.data.size();
  });
  uint64_t end = data_start;
  for (const SafetensorsTensor& tensor : tensors_) {
    if (tensor.offset != end) {
      return corrupt_file(path_, "tensor {} begins at offset {}, but the one before it ends at {}",
                          shown(tensor.name), tensor.offset, end);
    }
    end += tensor.data.size();
  }
  if (end != bytes_.size()) {
    return corrupt_file(path_, "the tensors end at offset {}, but the file has {} bytes", end, bytes_.size());
  }
  return {};
}

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  auto mapped = std::make_unique<MmapFile>(PAGODA_TRY(MmapFile::open(path)));
  SafetensorsFile file = PAGODA_TRY(parse(path, mapped->bytes()));
  file.file_ = std::move(mapped);
  return file;
}

}  // namespace pagoda::model
