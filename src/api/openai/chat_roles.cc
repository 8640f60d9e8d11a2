#include "api/openai/chat_roles.h"

#include <algorithm>
#include <array>

namespace pagoda::openai {
namespace {

// `function` came before `tool` and becomes it.
constexpr std::array<std::string_view, 5> kRoles = {"system", "user", "assistant", "tool", "function"};

}  // namespace

std::optional<std::string> ChatRoles::resolve(std::string_view role) const {
  if (std::ranges::find(kRoles, role) != kRoles.end() || is_named(role)) return std::string(role);
  if (role == "developer") return "system";
  return std::nullopt;
}

bool ChatRoles::is_named(std::string_view role) const {
  const auto is_plain = [](char c) { return (c >= 'a' && c <= 'z') || c == '_' || c == '-'; };
  if (!std::ranges::all_of(role, is_plain)) return false;
  for (const char quote : {'\'', '"'}) {
    const std::string literal = quote + std::string(role) + quote;
    if (source_.find(literal) != std::string::npos) return true;
  }
  return false;
}

}  // namespace pagoda::openai
