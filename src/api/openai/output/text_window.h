// Text that comes in pieces, looked at from the front.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace pagoda::openai {

enum class Match : uint8_t { kYes, kNo, kMore };  // kMore: what follows decides

inline bool is_json_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// `text` begins with `literal`.
inline Match match_literal(std::string_view text, std::string_view literal) {
  if (text.size() >= literal.size()) return text.starts_with(literal) ? Match::kYes : Match::kNo;
  return literal.starts_with(text) ? Match::kMore : Match::kNo;
}

// The first place where one of `markers` begins, or may begin with what follows; text.size() when none can.
struct MarkerPlace {
  size_t at;
  const std::string* marker = nullptr;  // null: not certain yet
};
MarkerPlace find_marker(std::string_view text, std::span<const std::string> markers);

}  // namespace pagoda::openai
