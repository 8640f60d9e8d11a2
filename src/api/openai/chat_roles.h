// Which roles the messages of a conversation may have.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pagoda::openai {

// A template that prints any role would show the model one that it was never trained on, and another drops
// such messages without a word; so a role counts only if it is one of the API's or the template names it.
class ChatRoles {
 public:
  ChatRoles() = default;
  explicit ChatRoles(std::string template_source) : source_(std::move(template_source)) {}

  // As the template knows it: developer is system to templates that don't name it. nullopt: unknown.
  std::optional<std::string> resolve(std::string_view role) const;

 private:
  bool is_named(std::string_view role) const;

  std::string source_;
};

}  // namespace pagoda::openai
