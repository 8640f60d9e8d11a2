#include "model/loader/json_file.h"

#include <cmath>
#include <limits>

#include "base/mmap_file.h"
#include "model/loader/file_error.h"

namespace pagoda::model {
namespace {

constexpr uint64_t kMaxJsonBytes = uint64_t{16}
                                   << 20;  // the indexes of the largest published models have a tenth of it

}  // namespace

Result<std::string> read_text_file(const std::string& path, uint64_t max_bytes) {
  const MmapFile file = PAGODA_TRY(MmapFile::open(path));
  if (file.bytes().size() > max_bytes) {
    return corrupt_file(path, "has {} bytes; the limit is {}", file.bytes().size(), max_bytes);
  }
  return std::string(file.bytes().begin(), file.bytes().end());
}

Result<nlohmann::json> read_json_object(const std::string& path) {
  const std::string text = PAGODA_TRY(read_text_file(path, kMaxJsonBytes));
  try {
    nlohmann::json value = nlohmann::json::parse(text);
    if (!value.is_object())
      return corrupt_file(path, "holds a JSON {} instead of an object", value.type_name());
    return Result<nlohmann::json>(std::move(value));
  } catch (const nlohmann::json::parse_error& error) {
    return corrupt_file(path, "is not valid JSON at offset {}", error.byte);
  } catch (const nlohmann::json::exception&) {
    return corrupt_file(path, "holds a number that is out of range");
  }
}

const nlohmann::json* JsonView::find(const char* key) const {
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

Error JsonView::wrong_type(const char* key, const nlohmann::json& value, std::string_view expected) const {
  return corrupt_file(where_, "key '{}' is {} {}, not {}", key,
                      value.is_array() || value.is_object() ? "an" : "a", value.type_name(), expected);
}

Result<std::optional<int64_t>> JsonView::integer(const char* key) const {
  const nlohmann::json* const value = find(key);
  if (value == nullptr) return std::optional<int64_t>();
  if (value->is_number_unsigned()) {
    const auto number = value->get<uint64_t>();
    if (number > static_cast<uint64_t>(INT64_MAX)) return corrupt_file(where_, "key '{}' is {}", key, number);
    return std::optional(static_cast<int64_t>(number));
  }
  if (value->is_number_integer()) return std::optional(value->get<int64_t>());
  if (!value->is_number_float()) return wrong_type(key, *value, "an integer");
  const auto number = value->get<double>();
  if (!(std::fabs(number) < 0x1p53) || number != std::floor(number)) {
    return corrupt_file(where_, "key '{}' is {}, not an integer", key, number);
  }
  return std::optional(static_cast<int64_t>(number));
}

Result<std::optional<double>> JsonView::real(const char* key) const {
  const nlohmann::json* const value = find(key);
  if (value == nullptr) return std::optional<double>();
  if (!value->is_number()) return wrong_type(key, *value, "a number");
  return std::optional(value->get<double>());
}

Result<std::optional<bool>> JsonView::boolean(const char* key) const {
  const nlohmann::json* const value = find(key);
  if (value == nullptr) return std::optional<bool>();
  if (!value->is_boolean()) return wrong_type(key, *value, "true or false");
  return std::optional(value->get<bool>());
}

Result<std::optional<std::string>> JsonView::string(const char* key) const {
  const nlohmann::json* const value = find(key);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string()) return wrong_type(key, *value, "a string");
  return std::optional(value->get<std::string>());
}

Result<std::optional<JsonView>> JsonView::object(const char* key) const {
  const nlohmann::json* const value = find(key);
  if (value == nullptr) return std::optional<JsonView>();
  if (!value->is_object()) return wrong_type(key, *value, "an object");
  return std::optional(JsonView(*value, fmt::format("{}: {}", where_, key)));
}

Result<int64_t> positive_integer(const JsonView& json, const char* key, std::optional<int64_t> fallback) {
  constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();
  const auto value = PAGODA_TRY(json.integer(key));
  if (!value && fallback) return *fallback;
  if (!value) return corrupt_file(json.where(), "key '{}' is missing", key);
  if (*value < 1 || *value > kMaxInt) {
    return corrupt_file(json.where(), "key '{}' is {}, not in 1 to {}", key, *value, kMaxInt);
  }
  return *value;
}

}  // namespace pagoda::model
