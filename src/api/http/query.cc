#include "api/http/query.h"

#include <fmt/format.h>

#include <charconv>

namespace pagoda::http {
namespace {

// Forms write a blank as a plus sign.
std::string form_decoded(std::string text) {
  for (char& c : text) {
    if (c == '+') c = ' ';
  }
  return percent_decoded(text);
}

}  // namespace

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    const char* const digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(digits, digits + 2, value, 16).ptr == digits + 2) {
      out.push_back(static_cast<char>(value));
      i += 2;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

Query::Query(std::string_view text) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('&'), text.size());
    const std::string_view pair = text.substr(0, end);
    const size_t equals = std::min(pair.find('='), pair.size());
    values_.emplace(form_decoded(std::string(pair.substr(0, equals))),
                    form_decoded(std::string(pair.substr(std::min(equals + 1, pair.size())))));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

std::optional<std::string> Query::text(const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::nullopt : std::optional(found->second);
}

Result<int64_t> Query::integer(const std::string& name, int64_t min, int64_t max, int64_t fallback) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return fallback;
  const std::string& digits = found->second;
  int64_t value = 0;
  const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (end.ec != std::errc() || end.ptr != digits.data() + digits.size() || value < min || value > max) {
    return make_error(ErrorKind::kInvalidArgument,
                      fmt::format("{} must be an integer from {} to {}.", name, min, max), name);
  }
  return value;
}

}  // namespace pagoda::http
