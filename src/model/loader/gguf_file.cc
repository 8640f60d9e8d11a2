#include "model/loader/gguf_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <unordered_set>
#include <utility>

#include "model/loader/file_error.h"

namespace pagoda::model {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are copied from little-endian files");

// Real files have a few dozen keys and a few thousand tensors. The limits bound the tables of a hostile one.
constexpr uint64_t kMaxKeys = 65536;
constexpr uint64_t kMaxTensors = 65536;
constexpr uint64_t kMinKeyBytes = 8 + 1 + 4 + 1;  // length, one character, type, the smallest value
constexpr uint64_t kMinTensorBytes =
    8 + 1 + 4 + 8 + 4 + 8;                     // length, one character, count, one dim, type, offset
constexpr uint64_t kMaxKeyLength = 65535;      // gguf.md
constexpr uint64_t kMaxTensorNameLength = 63;  // ggml keeps 64 bytes with the final zero
constexpr uint32_t kMaxDims = 4;
constexpr uint64_t kDefaultAlignment = 32;

// Bytes of a scalar; 0 for strings, arrays and unknown types.
uint64_t scalar_bytes(GgufType type) {
  switch (type) {
    case GgufType::kUint8:
    case GgufType::kInt8:
    case GgufType::kBool:
      return 1;
    case GgufType::kUint16:
    case GgufType::kInt16:
      return 2;
    case GgufType::kUint32:
    case GgufType::kInt32:
    case GgufType::kFloat32:
      return 4;
    case GgufType::kUint64:
    case GgufType::kInt64:
    case GgufType::kFloat64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      return 0;
  }
  return 0;
}

std::string_view type_name(GgufType type) {
  static constexpr std::array<std::string_view, 13> kNames = {
      "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};
  const auto index = static_cast<size_t>(type);
  return index < kNames.size() ? kNames[index] : "unknown";
}

bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

std::string_view as_text(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <class T>
T load(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

// Integers and bools only. nullopt when the value does not fit int64.
std::optional<int64_t> load_integer(GgufType type, const uint8_t* at) {
  switch (type) {
    case GgufType::kUint8:
    case GgufType::kBool:
      return *at;
    case GgufType::kInt8:
      return load<int8_t>(at);
    case GgufType::kUint16:
      return load<uint16_t>(at);
    case GgufType::kInt16:
      return load<int16_t>(at);
    case GgufType::kUint32:
      return load<uint32_t>(at);
    case GgufType::kInt32:
      return load<int32_t>(at);
    case GgufType::kInt64:
      return load<int64_t>(at);
    case GgufType::kUint64: {
      const auto value = load<uint64_t>(at);
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

bool is_integer(GgufType type) {
  return scalar_bytes(type) != 0 && type != GgufType::kFloat32 && type != GgufType::kFloat64 &&
         type != GgufType::kBool;
}

}  // namespace

const GgmlType* find_ggml_type(uint32_t id) {
  // Index = type number of ggml.h. Numbers without a name were removed from the format.
  static constexpr std::array<GgmlType, 42> kTypes = {{
      {"F32", 1, 4},
      {"F16", 1, 2},
      {"Q4_0", 32, 18},
      {"Q4_1", 32, 20},
      {},
      {},
      {"Q5_0", 32, 22},
      {"Q5_1", 32, 24},
      {"Q8_0", 32, 34},
      {"Q8_1", 32, 36},
      {"Q2_K", 256, 84},
      {"Q3_K", 256, 110},
      {"Q4_K", 256, 144},
      {"Q5_K", 256, 176},
      {"Q6_K", 256, 210},
      {"Q8_K", 256, 292},
      {"IQ2_XXS", 256, 66},
      {"IQ2_XS", 256, 74},
      {"IQ3_XXS", 256, 98},
      {"IQ1_S", 256, 50},
      {"IQ4_NL", 32, 18},
      {"IQ3_S", 256, 110},
      {"IQ2_S", 256, 82},
      {"IQ4_XS", 256, 136},
      {"I8", 1, 1},
      {"I16", 1, 2},
      {"I32", 1, 4},
      {"I64", 1, 8},
      {"F64", 1, 8},
      {"IQ1_M", 256, 56},
      {"BF16", 1, 2},
      {},
      {},
      {},
      {"TQ1_0", 256, 54},
      {"TQ2_0", 256, 66},
      {},
      {},
      {},
      {"MXFP4", 32, 17},
      {"NVFP4", 64, 36},
      {"Q1_0", 128, 18},
  }};
  return id < kTypes.size() && !kTypes[id].name.empty() ? &kTypes[id] : nullptr;
}

// Reads one file front to back. Every step checks what is left before it takes or counts anything.
class GgufParser {
 public:
  GgufParser(std::string path, std::span<const uint8_t> bytes) {
    file_.path_ = std::move(path);
    file_.bytes_ = bytes;
  }

  Result<GgufFile> run() {
    PAGODA_TRY(header());
    for (uint64_t i = 0; i < num_keys_; ++i) PAGODA_TRY(key_value(i));
    const uint64_t alignment = PAGODA_TRY(read_alignment());
    for (uint64_t i = 0; i < num_tensors_; ++i) PAGODA_TRY(tensor_info(i));
    PAGODA_TRY(place_tensors(alignment));
    return std::move(file_);
  }

 private:
  uint64_t remaining() const { return file_.bytes_.size() - at_; }

  template <class... Args>
  Error corrupt(fmt::format_string<Args...> format, Args&&... args) const {
    return corrupt_file(file_.path_, format, std::forward<Args>(args)...);
  }

  Result<std::span<const uint8_t>> take(uint64_t count, std::string_view what) {
    if (count > remaining()) {
      return corrupt("{} at offset {} needs {} bytes, but the file ends after {}", what, at_, count,
                     remaining());
    }
    const auto bytes = file_.bytes_.subspan(at_, count);
    at_ += count;
    return bytes;
  }

  template <class T>
  Result<T> number(std::string_view what) {
    const auto bytes = PAGODA_TRY(take(sizeof(T), what));
    return load<T>(bytes.data());
  }

  Result<std::span<const uint8_t>> counted_bytes(std::string_view what) {
    const auto length = PAGODA_TRY(number<uint64_t>(what));
    return take(length, what);
  }

  Result<void> header() {
    const auto magic = PAGODA_TRY(take(4, "the magic number"));
    if (as_text(magic) != "GGUF") return corrupt("starts with {}, not with 'GGUF'", shown(as_text(magic)));
    file_.version_ = PAGODA_TRY(number<uint32_t>("the version"));
    if (file_.version_ == 0x03000000 || file_.version_ == 0x02000000) {
      return corrupt("is a big-endian GGUF file; only little-endian ones can be read");
    }
    if (file_.version_ != 2 && file_.version_ != 3) {
      return corrupt("GGUF version {} at offset 4 is not 2 or 3", file_.version_);
    }
    num_tensors_ = PAGODA_TRY(number<uint64_t>("the number of tensors"));
    num_keys_ = PAGODA_TRY(number<uint64_t>("the number of keys"));
    const uint64_t keys_limit = std::min(kMaxKeys, remaining() / kMinKeyBytes);
    if (num_keys_ > keys_limit) {
      return corrupt("claims {} keys at offset 16, but at most {} fit", num_keys_, keys_limit);
    }
    const uint64_t tensors_limit = std::min(kMaxTensors, remaining() / kMinTensorBytes);
    if (num_tensors_ > tensors_limit) {
      return corrupt("claims {} tensors at offset 8, but at most {} fit", num_tensors_, tensors_limit);
    }
    return {};
  }

  Result<void> key_value(uint64_t index) {
    const uint64_t start = at_;
    const std::string what = fmt::format("key {}", index);
    const auto key = as_text(PAGODA_TRY(counted_bytes(what)));
    if (key.empty() || key.size() > kMaxKeyLength || !is_printable(key)) {
      return corrupt("key {} at offset {} is {}: not 1 to {} printable characters", index, start, shown(key),
                     kMaxKeyLength);
    }
    const std::string value_of = "the value of key " + shown(key);
    GgufValue value;
    value.type = static_cast<GgufType>(PAGODA_TRY(number<uint32_t>(value_of)));
    value.offset = at_;
    if (value.type == GgufType::kString) {
      value.bytes = PAGODA_TRY(counted_bytes(value_of));
    } else if (value.type == GgufType::kArray) {
      PAGODA_TRY(array(value, value_of));
    } else {
      const uint64_t size = scalar_bytes(value.type);
      if (size == 0) {
        return corrupt("{} at offset {} has unknown type {}", value_of, value.offset,
                       static_cast<uint32_t>(value.type));
      }
      value.bytes = PAGODA_TRY(take(size, value_of));
      PAGODA_TRY(check_bools(value.type, value, value_of));
    }
    if (!file_.values_.emplace(key, value).second) {
      return corrupt("key {} at offset {} appears twice", shown(key), start);
    }
    return {};
  }

  Result<void> array(GgufValue& value, const std::string& what) {
    value.element = static_cast<GgufType>(PAGODA_TRY(number<uint32_t>(what)));
    value.count = PAGODA_TRY(number<uint64_t>(what));
    const uint64_t start = at_;
    if (value.element == GgufType::kString) {
      if (value.count > remaining() / 8) {
        return corrupt("{} at offset {} claims {} strings; {} bytes are left", what, value.offset,
                       value.count, remaining());
      }
      for (uint64_t i = 0; i < value.count; ++i) PAGODA_TRY(counted_bytes(what));
      value.bytes = file_.bytes_.subspan(start, at_ - start);
      return {};
    }
    const uint64_t size = scalar_bytes(value.element);
    if (size == 0) {
      return corrupt(
          "{} at offset {} is an array of type {}; only numbers, bools and strings may be elements", what,
          value.offset, static_cast<uint32_t>(value.element));
    }
    if (value.count > remaining() / size) {
      return corrupt("{} at offset {} claims {} elements; {} bytes are left", what, value.offset, value.count,
                     remaining());
    }
    value.bytes = PAGODA_TRY(take(value.count * size, what));
    return check_bools(value.element, value, what);
  }

  Result<void> check_bools(GgufType type, const GgufValue& value, const std::string& what) const {
    if (type != GgufType::kBool) return {};
    for (const uint8_t byte : value.bytes) {
      if (byte > 1) return corrupt("{} at offset {} is a bool of value {}", what, value.offset, byte);
    }
    return {};
  }

  Result<uint64_t> read_alignment() const {
    const GgufValue* value = file_.find("general.alignment");
    if (value == nullptr) return kDefaultAlignment;
    if (value->type != GgufType::kUint32) {
      return corrupt("key 'general.alignment' at offset {} has type {} instead of u32", value->offset,
                     type_name(value->type));
    }
    const auto alignment = load<uint32_t>(value->bytes.data());
    // gguf.md asks for a multiple of 8; a power of two is what every writer uses and what ggml accepts.
    if (!std::has_single_bit(alignment) || alignment < 8 || alignment > 65536) {
      return corrupt("key 'general.alignment' at offset {} is {}, not a power of two from 8 to 65536",
                     value->offset, alignment);
    }
    return uint64_t{alignment};
  }

  Result<void> tensor_info(uint64_t index) {
    GgufTensor tensor;
    tensor.info_offset = at_;
    const std::string what = fmt::format("the entry of tensor {}", index);
    tensor.name = as_text(PAGODA_TRY(counted_bytes(what)));
    if (tensor.name.empty() || tensor.name.size() > kMaxTensorNameLength || !is_printable(tensor.name)) {
      return corrupt("tensor {} at offset {} is named {}: not 1 to {} printable characters", index,
                     tensor.info_offset, shown(tensor.name), kMaxTensorNameLength);
    }
    if (!names_.insert(tensor.name).second) {
      return corrupt("tensor {} at offset {} appears twice", shown(tensor.name), tensor.info_offset);
    }
    const auto num_dims = PAGODA_TRY(number<uint32_t>(what));
    if (num_dims == 0 || num_dims > kMaxDims) {
      return corrupt("tensor {} at offset {} has {} dimensions, not 1 to {}", shown(tensor.name),
                     tensor.info_offset, num_dims, kMaxDims);
    }
    tensor.num_dims = static_cast<int>(num_dims);
    for (uint32_t d = 0; d < num_dims; ++d) tensor.dims[d] = PAGODA_TRY(number<uint64_t>(what));
    tensor.type = PAGODA_TRY(number<uint32_t>(what));
    tensor.offset = PAGODA_TRY(number<uint64_t>(what));
    file_.tensors_.push_back(tensor);
    return {};
  }

  // Bytes of the tensor's data, or an error where its shape is impossible.
  Result<uint64_t> tensor_bytes(const GgufTensor& tensor) const {
    const GgmlType* const type = find_ggml_type(tensor.type);
    const std::string name = shown(tensor.name);
    if (type == nullptr) {
      return corrupt("tensor {} at offset {} has unknown type {}", name, tensor.info_offset, tensor.type);
    }
    uint64_t elements = 1;
    for (const uint64_t dim : tensor.dims) {
      if (dim == 0 || __builtin_mul_overflow(elements, dim, &elements)) {
        return corrupt("tensor {} at offset {} has impossible dimensions [{}]", name, tensor.info_offset,
                       number_list(tensor.dims));
      }
    }
    if (tensor.dims[0] % type->block_elements != 0) {
      return corrupt("tensor {} at offset {} has rows of {} elements; {} comes in blocks of {}", name,
                     tensor.info_offset, tensor.dims[0], type->name, type->block_elements);
    }
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(elements / type->block_elements, uint64_t{type->block_bytes}, &bytes)) {
      return corrupt("tensor {} at offset {} has {} elements: too many", name, tensor.info_offset, elements);
    }
    return bytes;
  }

  // Turns offsets from the start of the data into places in the file, and proves that they lie in it and
  // apart.
  Result<void> place_tensors(uint64_t alignment) {
    const uint64_t data_start = (at_ + alignment - 1) / alignment * alignment;
    const uint64_t data_bytes = data_start > file_.bytes_.size() ? 0 : file_.bytes_.size() - data_start;
    for (GgufTensor& tensor : file_.tensors_) {
      const uint64_t bytes = PAGODA_TRY(tensor_bytes(tensor));
      if (tensor.offset % alignment != 0) {
        return corrupt("tensor {} at offset {} begins at data offset {}, which is not a multiple of {}",
                       shown(tensor.name), tensor.info_offset, tensor.offset, alignment);
      }
      if (tensor.offset > data_bytes || bytes > data_bytes - tensor.offset) {
        return corrupt(
            "tensor {} at offset {} needs {} bytes from data offset {}, but the file has {} bytes of data",
            shown(tensor.name), tensor.info_offset, bytes, tensor.offset, data_bytes);
      }
      tensor.offset += data_start;
      tensor.data = file_.bytes_.subspan(tensor.offset, bytes);
    }
    std::vector<const GgufTensor*> order;
    for (const GgufTensor& tensor : file_.tensors_) order.push_back(&tensor);
    std::sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->offset < b->offset; });
    for (size_t i = 1; i < order.size(); ++i) {
      const GgufTensor &a = *order[i - 1], &b = *order[i];
      if (b.offset - a.offset < a.data.size()) {
        return corrupt("tensors {} and {} overlap at offset {}", shown(a.name), shown(b.name), b.offset);
      }
    }
    return {};
  }

  GgufFile file_;
  uint64_t at_ = 0;
  uint64_t num_keys_ = 0, num_tensors_ = 0;
  std::unordered_set<std::string_view> names_;
};

Result<GgufFile> GgufFile::parse(std::string path, std::span<const uint8_t> bytes) {
  return GgufParser(std::move(path), bytes).run();
}

Result<GgufFile> GgufFile::open(const std::string& path) {
  auto mapped = std::make_unique<MmapFile>(PAGODA_TRY(MmapFile::open(path)));
  GgufFile file = PAGODA_TRY(parse(path, mapped->bytes()));
  file.file_ = std::move(mapped);
  return file;
}

std::vector<std::string_view> GgufFile::keys() const {
  std::vector<std::string_view> keys;
  keys.reserve(values_.size());
  for (const auto& [key, value] : values_) keys.push_back(key);
  std::sort(keys.begin(), keys.end(),
            [&](auto a, auto b) { return values_.at(a).offset < values_.at(b).offset; });
  return keys;
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

Error GgufFile::wrong_type(std::string_view key, const GgufValue& value, std::string_view expected) const {
  const bool is_array = value.type == GgufType::kArray;
  return corrupt_file(path_, "key {} at offset {} has type {}{} instead of {}", shown(key), value.offset,
                      is_array ? "array of " : "", type_name(is_array ? value.element : value.type),
                      expected);
}

Result<std::optional<int64_t>> GgufFile::integer(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::optional<int64_t>();
  if (!is_integer(value->type)) return wrong_type(key, *value, "an integer");
  const auto number = load_integer(value->type, value->bytes.data());
  if (!number) return corrupt_file(path_, "key {} at offset {} is above 2^63", shown(key), value->offset);
  return number;
}

Result<std::optional<double>> GgufFile::real(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::optional<double>();
  if (value->type == GgufType::kFloat32) return std::optional<double>(load<float>(value->bytes.data()));
  if (value->type == GgufType::kFloat64) return std::optional<double>(load<double>(value->bytes.data()));
  if (!is_integer(value->type)) return wrong_type(key, *value, "a number");
  const auto number = PAGODA_TRY(integer(key));
  return std::optional<double>(static_cast<double>(*number));
}

Result<std::optional<bool>> GgufFile::boolean(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::optional<bool>();
  if (value->type != GgufType::kBool) return wrong_type(key, *value, "bool");
  return std::optional<bool>(value->bytes[0] != 0);
}

Result<std::optional<std::string_view>> GgufFile::string(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::optional<std::string_view>();
  if (value->type != GgufType::kString) return wrong_type(key, *value, "string");
  return std::optional(as_text(value->bytes));
}

Result<std::optional<std::vector<std::string_view>>> GgufFile::strings(std::string_view key) const {
  using Texts = std::vector<std::string_view>;
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::optional<Texts>();
  if (value->type != GgufType::kArray || value->element != GgufType::kString) {
    return wrong_type(key, *value, "array of string");
  }
  Texts texts;
  texts.reserve(value->count);
  for (const uint8_t* at = value->bytes.data(); texts.size() < value->count;) {
    const auto length = load<uint64_t>(at);  // checked while parsing
    texts.emplace_back(reinterpret_cast<const char*>(at) + 8, length);
    at += 8 + length;
  }
  return std::optional(std::move(texts));
}

Result<std::optional<std::vector<float>>> GgufFile::floats(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::optional<std::vector<float>>();
  if (value->type != GgufType::kArray || value->element != GgufType::kFloat32) {
    return wrong_type(key, *value, "array of f32");
  }
  std::vector<float> numbers(value->count);
  if (!numbers.empty()) std::memcpy(numbers.data(), value->bytes.data(), value->bytes.size());
  return std::optional(std::move(numbers));
}

Result<std::optional<std::vector<int64_t>>> GgufFile::integers(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::optional<std::vector<int64_t>>();
  const bool fits =
      value->type == GgufType::kArray && (is_integer(value->element) || value->element == GgufType::kBool);
  if (!fits) return wrong_type(key, *value, "array of integers");
  std::vector<int64_t> numbers;
  numbers.reserve(value->count);
  for (uint64_t i = 0; i < value->count; ++i) {
    const auto number = load_integer(value->element, value->bytes.data() + i * scalar_bytes(value->element));
    if (!number) return corrupt_file(path_, "key {}: element {} is above 2^63", shown(key), i);
    numbers.push_back(*number);
  }
  return std::optional(std::move(numbers));
}

}  // namespace pagoda::model
