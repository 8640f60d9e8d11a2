#include "api/openai/field_reader.h"

#include <fmt/format.h>

#include <cmath>

namespace pagoda::openai {
namespace {

thread_local FieldRecorder* recorder = nullptr;

}  // namespace

FieldRecorder::FieldRecorder() {
  recorder = this;
}
FieldRecorder::~FieldRecorder() {
  recorder = nullptr;
}

void FieldRecorder::record(const Json& object, const std::string& prefix, const char* name) {
  if (body_objects_.empty()) body_objects_.insert(&object);
  if (!body_objects_.contains(&object)) return;
  names_.insert(prefix + name);
  const auto found = object.find(name);
  if (found != object.end() && found->is_object()) body_objects_.insert(&*found);
}

FieldReader::FieldReader(const Json& object, std::string prefix)
    : object_(object), prefix_(std::move(prefix)) {}

const Json* FieldReader::value(const char* name) {
  known_.insert(name);
  if (recorder != nullptr) recorder->record(object_, prefix_, name);
  const auto found = object_.find(name);
  if (found == object_.end() || found->is_null()) return nullptr;
  return &*found;
}

void FieldReader::fail(const char* name, std::string message) {
  fail(make_error(ErrorKind::kInvalidArgument, std::move(message), prefix_ + name));
}

void FieldReader::fail(Error error) {
  if (!error_) error_ = std::move(error);
}

std::optional<bool> FieldReader::boolean(const char* name) {
  const Json* json = value(name);
  if (json == nullptr) return std::nullopt;
  if (json->is_boolean()) return json->get<bool>();
  fail(name, fmt::format("{}{} must be true or false, got {}.", prefix_, name, describe(*json)));
  return std::nullopt;
}

std::optional<int64_t> FieldReader::integer(const char* name, int64_t min, int64_t max) {
  const Json* json = value(name);
  if (json == nullptr) return std::nullopt;
  const std::optional<int64_t> number = exact_integer(*json);
  if (number && *number >= min && *number <= max) return number;
  if (!json->is_number() || (!number && json->is_number_float() && std::fabs(json->get<double>()) < 0x1p63)) {
    fail(name, fmt::format("{}{} must be an integer, got {}.", prefix_, name, describe(*json)));
  } else {
    fail(name,
         fmt::format("{}{} must be between {} and {}, got {}.", prefix_, name, min, max, describe(*json)));
  }
  return std::nullopt;
}

std::optional<double> FieldReader::number(const char* name, const NumberRange& range) {
  const Json* json = value(name);
  if (json == nullptr) return std::nullopt;
  if (!json->is_number()) {
    fail(name, fmt::format("{}{} must be a number, got {}.", prefix_, name, describe(*json)));
    return std::nullopt;
  }
  const auto number = json->get<double>();
  const bool above_min = range.min_open ? number > range.min : number >= range.min;
  if (std::isfinite(number) && above_min && number <= range.max) return number;
  fail(name, fmt::format("{}{} must be in {}{}, {}], got {}.", prefix_, name, range.min_open ? '(' : '[',
                         range.min, range.max, describe(*json)));
  return std::nullopt;
}

std::optional<std::string> FieldReader::string(const char* name) {
  const Json* json = value(name);
  if (json == nullptr) return std::nullopt;
  if (json->is_string()) return json->get<std::string>();
  fail(name, fmt::format("{}{} must be a string, got {}.", prefix_, name, describe(*json)));
  return std::nullopt;
}

const Json* FieldReader::object(const char* name) {
  const Json* json = value(name);
  if (json == nullptr || json->is_object()) return json;
  fail(name, fmt::format("{}{} must be an object, got {}.", prefix_, name, describe(*json)));
  return nullptr;
}

const Json* FieldReader::list(const char* name) {
  const Json* json = value(name);
  if (json == nullptr || json->is_array()) return json;
  fail(name, fmt::format("{}{} must be a list, got {}.", prefix_, name, describe(*json)));
  return nullptr;
}

std::optional<std::vector<TokenId>> FieldReader::token_ids(const char* name, int64_t vocab_size) {
  const Json* json = value(name);
  if (json == nullptr) return std::nullopt;
  auto ids = read_token_ids(*json, prefix_ + name, vocab_size);
  if (ids) return std::move(*ids);
  fail(std::move(ids).error());
  return std::nullopt;
}

void FieldReader::finish(const FieldReader& inner) {
  if (inner.error_) fail(*inner.error_);
  for (std::string& name : inner.unknown_fields()) unknown_inside_.push_back(std::move(name));
}

std::vector<std::string> FieldReader::unknown_fields() const {
  std::vector<std::string> names;
  for (const auto& item : object_.items()) {
    if (!known_.contains(item.key())) names.push_back(prefix_ + item.key());
  }
  names.insert(names.end(), unknown_inside_.begin(), unknown_inside_.end());
  return names;
}

std::optional<int64_t> exact_integer(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const auto number = value.get<double>();
  // 2^63 itself does not fit; comparing as doubles is exact at that power of two.
  if (!(std::fabs(number) < 0x1p63) || std::trunc(number) != number) return std::nullopt;
  return static_cast<int64_t>(number);
}

std::string describe(const Json& value) {
  constexpr size_t kLongest = 40;
  if (value.is_array()) return "an array";
  if (value.is_object()) return "an object";
  std::string text = dump_json(value);
  if (text.size() <= kLongest) return text;
  size_t cut = kLongest;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0u) == 0x80u) --cut;
  return text.substr(0, cut) + "...";
}

Result<std::vector<TokenId>> read_token_ids(const Json& list, const std::string& name, int64_t vocab_size) {
  const auto wrong = [&](std::string message) {
    return make_error(ErrorKind::kInvalidArgument, std::move(message), name);
  };
  if (!list.is_array())
    return wrong(fmt::format("{} must be an array of token ids, got {}.", name, describe(list)));
  std::vector<TokenId> ids;
  ids.reserve(list.size());
  for (const Json& item : list) {
    const bool whole = item.is_number_integer() || exact_integer(item).has_value();
    if (!whole && !(item.is_number_float() && std::fabs(item.get<double>()) >= 0x1p63)) {
      return wrong(fmt::format("{} must hold integer token ids only, got {}.", name, describe(item)));
    }
    const std::optional<int64_t> id = exact_integer(item);
    if (!id || *id < 0 || *id >= vocab_size) {
      return wrong(fmt::format("Token id {} in {} is out of vocabulary: ids are 0 to {}.", describe(item),
                               name, vocab_size - 1));
    }
    ids.push_back(TokenId{static_cast<int32_t>(*id)});
  }
  return ids;
}

}  // namespace pagoda::openai
