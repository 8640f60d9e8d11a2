// The keys of a GGUF file in the making.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/loader/gguf_file.h"

namespace pagoda::quantize {

// Keys in the order in which they came; setting one again replaces it.
class GgufMetadata {
 public:
  void set_u32(std::string_view key, uint32_t value);
  void set_i32(std::string_view key, int32_t value);
  void set_f32(std::string_view key, float value);
  void set_bool(std::string_view key, bool value);
  void set_string(std::string_view key, std::string_view value);
  void set_strings(std::string_view key, std::span<const std::string> values);
  void set_f32s(std::string_view key, std::span<const float> values);
  void set_i32s(std::string_view key, std::span<const int32_t> values);
  // A value of another file, as it is.
  void copy(std::string_view key, const model::GgufValue& value);

  size_t size() const noexcept { return entries_.size(); }
  // As they lie in the file.
  std::string bytes() const;

 private:
  std::string& entry(std::string_view key, model::GgufType type);
  std::string& array(std::string_view key, model::GgufType element, size_t count);

  struct Entry {
    std::string key;
    std::string typed;  // the type and the value
  };
  std::vector<Entry> entries_;
};

// Little-endian parts of the format.
template <class T>
void append_number(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}
void append_text(std::string& out, std::string_view text);

}  // namespace pagoda::quantize
