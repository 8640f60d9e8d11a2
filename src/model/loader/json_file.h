// The JSON files of a model folder, read with limits and typed questions.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace pagoda::model {

// The whole file. kIo when it can't be read, kCorruptFile above `max_bytes`.
Result<std::string> read_text_file(const std::string& path, uint64_t max_bytes);

// The file as a JSON object; kCorruptFile when it is anything else. At most 16 MiB.
Result<nlohmann::json> read_json_object(const std::string& path);

// Typed questions about one object, which must outlive the view. null counts as absent. `where` names the
// object in messages: "<file>" or "<file>: text_config". Nested values of hostile files are never copied:
// that would recurse.
class JsonView {
 public:
  JsonView(const nlohmann::json& object, std::string where) : object_(&object), where_(std::move(where)) {}

  const std::string& where() const noexcept { return where_; }
  // Null when absent or null.
  const nlohmann::json* find(const char* key) const;
  // True also for null.
  bool has_key(const char* key) const { return object_->contains(key); }

  // Whole numbers may be written as 4096.0.
  Result<std::optional<int64_t>> integer(const char* key) const;
  Result<std::optional<double>> real(const char* key) const;
  Result<std::optional<bool>> boolean(const char* key) const;
  Result<std::optional<std::string>> string(const char* key) const;
  // nullopt when absent.
  Result<std::optional<JsonView>> object(const char* key) const;

 private:
  Error wrong_type(const char* key, const nlohmann::json& value, std::string_view expected) const;

  const nlohmann::json* object_;
  std::string where_;
};

// A 32-bit number from 1 on; `fallback` when absent, an error when there is none either.
Result<int64_t> positive_integer(const JsonView& json, const char* key,
                                 std::optional<int64_t> fallback = std::nullopt);

}  // namespace pagoda::model
