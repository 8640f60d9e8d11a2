#include "quantize/gguf/metadata.h"

#include <algorithm>
#include <bit>

namespace pagoda::quantize {

using model::GgufType;

static_assert(std::endian::native == std::endian::little, "numbers are copied into little-endian files");

void append_text(std::string& out, std::string_view text) {
  append_number(out, static_cast<uint64_t>(text.size()));
  out.append(text);
}

std::string& GgufMetadata::entry(std::string_view key, GgufType type) {
  auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& one) { return one.key == key; });
  if (found == entries_.end()) found = entries_.insert(entries_.end(), Entry{std::string(key), {}});
  found->typed.clear();
  append_number(found->typed, static_cast<uint32_t>(type));
  return found->typed;
}

std::string& GgufMetadata::array(std::string_view key, GgufType element, size_t count) {
  std::string& out = entry(key, GgufType::kArray);
  append_number(out, static_cast<uint32_t>(element));
  append_number(out, static_cast<uint64_t>(count));
  return out;
}

void GgufMetadata::set_u32(std::string_view key, uint32_t value) {
  append_number(entry(key, GgufType::kUint32), value);
}
void GgufMetadata::set_i32(std::string_view key, int32_t value) {
  append_number(entry(key, GgufType::kInt32), value);
}
void GgufMetadata::set_f32(std::string_view key, float value) {
  append_number(entry(key, GgufType::kFloat32), value);
}
void GgufMetadata::set_bool(std::string_view key, bool value) {
  append_number(entry(key, GgufType::kBool), static_cast<uint8_t>(value ? 1 : 0));
}
void GgufMetadata::set_string(std::string_view key, std::string_view value) {
  append_text(entry(key, GgufType::kString), value);
}
void GgufMetadata::set_strings(std::string_view key, std::span<const std::string> values) {
  std::string& out = array(key, GgufType::kString, values.size());
  for (const std::string& value : values) append_text(out, value);
}
void GgufMetadata::set_f32s(std::string_view key, std::span<const float> values) {
  std::string& out = array(key, GgufType::kFloat32, values.size());
  for (const float value : values) append_number(out, value);
}
void GgufMetadata::set_i32s(std::string_view key, std::span<const int32_t> values) {
  std::string& out = array(key, GgufType::kInt32, values.size());
  for (const int32_t value : values) append_number(out, value);
}

void GgufMetadata::copy(std::string_view key, const model::GgufValue& value) {
  std::string& out =
      value.type == GgufType::kArray ? array(key, value.element, value.count) : entry(key, value.type);
  const std::string_view bytes(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size());
  if (value.type == GgufType::kString) {
    append_text(out, bytes);
  } else {
    out.append(bytes);
  }
}

std::string GgufMetadata::bytes() const {
  std::string out;
  for (const Entry& one : entries_) {
    append_text(out, one.key);
    out.append(one.typed);
  }
  return out;
}

}  // namespace pagoda::quantize
