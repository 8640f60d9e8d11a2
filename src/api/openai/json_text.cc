#include "api/openai/json_text.h"

#include <fmt/format.h>

#include <unordered_set>
#include <vector>

namespace pagoda::openai {
namespace {

Error bad_json(size_t byte, std::string_view what) {
  return make_error(ErrorKind::kInvalidArgument,
                    fmt::format("The body is not valid JSON: {} at byte {}.", what, byte));
}

// Length of the well-formed UTF-8 sequence at `text[i]`, or 0. Source: The Unicode Standard, table 3-7.
size_t utf8_length(std::string_view text, size_t i) {
  const auto byte = [&](size_t k) {
    return i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0u;
  };
  const auto continues = [&](size_t k) { return (byte(k) & 0xC0u) == 0x80u; };
  const unsigned b0 = byte(0);
  if (b0 < 0x80) return 1;
  if (b0 < 0xC2) return 0;
  if (b0 < 0xE0) return continues(1) ? 2 : 0;
  if (b0 < 0xF0) {
    const unsigned low = b0 == 0xE0 ? 0xA0u : 0x80u;
    const unsigned high = b0 == 0xED ? 0x9Fu : 0xBFu;
    return byte(1) >= low && byte(1) <= high && continues(2) ? 3 : 0;
  }
  if (b0 > 0xF4) return 0;
  const unsigned low = b0 == 0xF0 ? 0x90u : 0x80u;
  const unsigned high = b0 == 0xF4 ? 0x8Fu : 0xBFu;
  return byte(1) >= low && byte(1) <= high && continues(2) && continues(3) ? 4 : 0;
}

// What the parser below can't be trusted with: encoding, NUL bytes (it takes them for the end) and depth.
Result<void> scan(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) return bad_json(0, "a byte order mark");
  const size_t invalid = find_invalid_utf8(text);
  if (invalid != std::string_view::npos) return bad_json(invalid, "invalid UTF-8");
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\0') return bad_json(i, "a NUL byte");
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxJsonDepth)
        return bad_json(i, fmt::format("nesting deeper than {} levels", kMaxJsonDepth));
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return {};
}

// Builds the value from parser events; unlike the library's own builder it sees duplicate keys and can count.
class Builder final : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    if (!levels_.back().keys.insert(name).second) {
      return fail(fmt::format("The body is not valid JSON: the key '{}' occurs twice in one object.", name));
    }
    key_ = std::move(name);
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    std::string_view what = error.what();
    const size_t dash = what.find(" - ");
    what = dash == std::string_view::npos ? "syntax error" : what.substr(dash + 3);
    if (const size_t tail = what.find("; last read"); tail != std::string_view::npos)
      what = what.substr(0, tail);
    if (std::string_view(error.what()).find("number overflow") != std::string_view::npos)
      what = "number out of range";
    error_ = bad_json(position > 0 ? position - 1 : 0, what);
    return false;
  }

  Json& root() { return root_; }
  const std::optional<Error>& error() const { return error_; }

 private:
  struct Level {
    Json* container;
    std::unordered_set<std::string> keys;
  };

  bool fail(std::string message) {
    error_ = make_error(ErrorKind::kInvalidArgument, std::move(message));
    return false;
  }

  Json* place(Json value) {
    if (levels_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *levels_.back().container;
    if (parent.is_array()) {
      auto& array = parent.get_ref<Json::array_t&>();
      array.push_back(std::move(value));
      return &array.back();
    }
    // Keys are known to be new, so the linear search of ordered_map::emplace is not needed: a logit_bias with
    // 100,000 entries would take minutes in it.
    auto& object = static_cast<Json::object_t::Container&>(parent.get_ref<Json::object_t&>());
    object.emplace_back(std::move(key_), std::move(value));
    return &object.back().second;
  }

  template <class T>
  bool add(T&& value) {
    if (++count_ > kMaxJsonValues)
      return fail(fmt::format("The body holds more than {} JSON values.", kMaxJsonValues));
    place(Json(std::forward<T>(value)));
    return true;
  }
  bool open(Json empty) {
    if (++count_ > kMaxJsonValues)
      return fail(fmt::format("The body holds more than {} JSON values.", kMaxJsonValues));
    levels_.push_back({place(std::move(empty)), {}});
    return true;
  }
  bool close() {
    levels_.pop_back();
    return true;
  }

  Json root_;
  std::vector<Level> levels_;
  std::string key_;
  size_t count_ = 0;
  std::optional<Error> error_;
};

}  // namespace

size_t find_invalid_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    if (static_cast<unsigned char>(text[i]) < 0x80) {
      ++i;
      continue;
    }
    const size_t length = utf8_length(text, i);
    if (length == 0) return i;
    i += length;
  }
  return std::string_view::npos;
}

Result<Json> parse_json(std::string_view text) {
  if (text.empty())
    return make_error(ErrorKind::kInvalidArgument, "The body is empty; a JSON object is expected.");
  PAGODA_TRY(scan(text));
  Builder builder;
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) {
    if (builder.error()) return *builder.error();
    return make_error(ErrorKind::kInvalidArgument, "The body is not valid JSON.");
  }
  return std::move(builder.root());
}

std::string dump_json(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace pagoda::openai
