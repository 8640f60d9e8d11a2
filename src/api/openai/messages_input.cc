#include "api/openai/messages_input.h"

#include <fmt/format.h>

namespace pagoda::openai {
namespace {

Error unsupported_block(const std::string& param, const std::string& type) {
  return wrong_value(param + ".type", fmt::format("is {}; only text, tool_use, tool_result and thinking are "
                                                  "supported, no images or documents",
                                                  describe(Json(type))));
}

Result<std::string> text_of(const Json& block, const std::string& param, const char* name = "text") {
  FieldReader fields(block, param + ".");
  const auto text = fields.string(name);
  if (fields.error()) return *fields.error();
  if (!text) return wrong_value(param + "." + name, "is required");
  return *text;
}

// A string, or blocks that are all text.
Result<std::vector<std::string>> text_blocks(const Json& content, const std::string& param) {
  if (content.is_string()) return std::vector<std::string>{content.get<std::string>()};
  if (!content.is_array())
    return wrong_value(param,
                       fmt::format("must be a string or a list of text blocks, got {}", describe(content)));
  std::vector<std::string> texts;
  for (size_t i = 0; i < content.size(); ++i) {
    const std::string own = fmt::format("{}[{}]", param, i);
    const std::string type = PAGODA_TRY(type_of(content[i], own));
    if (type != "text") return unsupported_block(own, type);
    texts.push_back(PAGODA_TRY(text_of(content[i], own)));
  }
  return texts;
}

// Reads the blocks of one turn, in their order.
class TurnReader {
 public:
  TurnReader(const char* role, const std::string& origin, MessageList* messages)
      : role_(role), origin_(origin), messages_(messages) {}

  Result<void> read(const Json& content) {
    const std::string param = origin_ + ".content";
    if (content.is_string()) {
      add_text(content.get<std::string>());
      return {};
    }
    if (!content.is_array() || content.empty()) {
      return wrong_value(param, fmt::format("must be a string or a list of blocks that is not empty, got {}",
                                            content.is_array() ? "an empty list" : describe(content)));
    }
    for (size_t i = 0; i < content.size(); ++i) {
      PAGODA_TRY(read_block(content[i], fmt::format("{}[{}]", param, i)));
    }
    return {};
  }

 private:
  bool answers() const { return role_ == std::string_view("assistant"); }
  void add_text(std::string text) { messages_->add_text(role_, {std::move(text)}, origin_, true); }

  Result<void> read_block(const Json& block, const std::string& param) {
    const std::string type = PAGODA_TRY(type_of(block, param));
    if (type == "text") {
      add_text(PAGODA_TRY(text_of(block, param)));
      return {};
    }
    if (type == "tool_result" && role_ == std::string_view("user")) return read_result(block, param);
    if (type == "tool_use" && answers()) return read_use(block, param);
    if (type == "thinking" && answers()) {
      messages_->add_reasoning(PAGODA_TRY(text_of(block, param, "thinking")));
      return {};
    }
    if (type == "redacted_thinking" && answers()) return {};  // for its author's eyes only
    if (type == "tool_result" || type == "tool_use" || type == "thinking")
      return wrong_value(param + ".type", fmt::format("is {}, which a turn of {} can't have", type, role_));
    return unsupported_block(param, type);
  }

  Result<void> read_use(const Json& block, const std::string& param) {
    FieldReader fields(block, param + ".");
    const std::string id = required_string(fields, param + ".", "id");
    const std::string name = required_string(fields, param + ".", "name");
    const Json* input = fields.object("input");
    if (fields.error()) return *fields.error();
    messages_->add_tool_call(id, name, input == nullptr ? Json::object() : *input, origin_);
    return {};
  }

  Result<void> read_result(const Json& block, const std::string& param) {
    FieldReader fields(block, param + ".");
    const std::string id = required_string(fields, param + ".", "tool_use_id");
    (void)fields.boolean("is_error");
    if (fields.error()) return *fields.error();
    std::vector<std::string> texts;
    if (const Json* content = fields.value("content"))
      texts = PAGODA_TRY(text_blocks(*content, param + ".content"));
    if (messages_->add_tool_result(id, std::move(texts), origin_)) return {};
    return wrong_value(param + ".tool_use_id",
                       fmt::format("is {}, and no tool_use before has it", describe(Json(id))));
  }

  const char* const role_;
  const std::string origin_;
  MessageList* const messages_;
};

Result<void> read_turn(const Json& turn, const std::string& param, MessageList* messages) {
  if (!turn.is_object()) return wrong_value(param, fmt::format("must be an object, got {}", describe(turn)));
  FieldReader fields(turn, param + ".");
  const std::string role = required_string(fields, param + ".", "role");
  if (fields.error()) return *fields.error();
  const Json* content = fields.value("content");
  if (content == nullptr) return wrong_value(param + ".content", "is required");
  for (const char* known : {"user", "assistant", "system"}) {
    if (role == known) return TurnReader(known, param, messages).read(*content);
  }
  return wrong_value(param + ".role",
                     fmt::format("must be user, assistant or system, got {}", describe(Json(role))));
}

}  // namespace

Result<void> read_system_blocks(const Json& system, MessageList* messages) {
  auto texts = PAGODA_TRY(text_blocks(system, "system"));
  if (!texts.empty()) messages->add_text("system", std::move(texts), "system", true);
  return {};
}

Result<void> read_message_turns(const Json& turns, MessageList* messages) {
  if (turns.empty()) return wrong_value("messages", "must not be an empty list");
  for (size_t i = 0; i < turns.size(); ++i) {
    PAGODA_TRY(read_turn(turns[i], fmt::format("messages[{}]", i), messages));
  }
  return {};
}

}  // namespace pagoda::openai
