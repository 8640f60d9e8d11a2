#include "api/openai/responses_input.h"

#include <fmt/format.h>

namespace pagoda::openai {
namespace {

// The texts of a message's or a tool result's content.
Result<std::vector<std::string>> content_texts(const Json* content, const std::string& param) {
  if (content == nullptr) return wrong_value(param, "is required");
  if (content->is_string()) return std::vector<std::string>{content->get<std::string>()};
  if (!content->is_array() || content->empty()) {
    return wrong_value(param, fmt::format("must be a string or a list of parts that is not empty, got {}",
                                          content->is_array() ? "an empty list" : describe(*content)));
  }
  std::vector<std::string> texts;
  for (size_t i = 0; i < content->size(); ++i) {
    const Json& part = (*content)[i];
    const std::string own = fmt::format("{}[{}]", param, i);
    const std::string type = PAGODA_TRY(type_of(part, own));
    if (type != "input_text" && type != "output_text" && type != "text" && type != "refusal") {
      return wrong_value(
          own + ".type",
          fmt::format("is {}; only text is supported, no images, files or audio", describe(Json(type))));
    }
    FieldReader fields(part, own + ".");
    const auto text = fields.string(type == "refusal" ? "refusal" : "text");
    if (fields.error()) return *fields.error();
    if (!text) return wrong_value(own, "has no text");
    texts.push_back(*text);
  }
  return texts;
}

Result<void> read_message(const Json& item, const std::string& param, MessageList* messages) {
  FieldReader fields(item, param + ".");
  const std::string role = required_string(fields, param + ".", "role");
  if (fields.error()) return *fields.error();
  auto texts = PAGODA_TRY(content_texts(fields.value("content"), param + ".content"));
  if (role == "user") {
    messages->add_text("user", std::move(texts), param, false);
  } else if (role == "assistant") {
    messages->add_text("assistant", std::move(texts), param, false);
  } else if (role == "system" || role == "developer") {
    // Templates know one system message; a second one would be refused or shown as a turn.
    messages->add_text("system", std::move(texts), param, true);
  } else {
    return wrong_value(param + ".role", fmt::format("must be user, assistant, system or developer, got {}",
                                                    describe(Json(role))));
  }
  return {};
}

Result<void> read_call(const Json& item, const std::string& param, MessageList* messages) {
  FieldReader fields(item, param + ".");
  const std::string id = required_string(fields, param + ".", "call_id");
  const std::string name = required_string(fields, param + ".", "name");
  const std::string arguments = fields.string("arguments").value_or("");
  if (fields.error()) return *fields.error();
  if (!arguments.empty()) {
    const auto parsed = parse_json(arguments);
    if (!parsed || !parsed->is_object())
      return wrong_value(param + ".arguments", "must be the text of a JSON object");
  }
  messages->add_tool_call(id, name, arguments, param);
  return {};
}

Result<void> read_call_output(const Json& item, const std::string& param, MessageList* messages) {
  FieldReader fields(item, param + ".");
  const std::string id = required_string(fields, param + ".", "call_id");
  if (fields.error()) return *fields.error();
  auto texts = PAGODA_TRY(content_texts(fields.value("output"), param + ".output"));
  if (messages->add_tool_result(id, std::move(texts), param)) return {};
  return wrong_value(param + ".call_id",
                     fmt::format("is {}, and no function_call before has it", describe(Json(id))));
}

// The text itself, or its summary where a client kept no more. Encrypted content is of other servers.
Result<void> read_reasoning(const Json& item, const std::string& param, MessageList* messages) {
  FieldReader fields(item, param + ".");
  for (const char* name : {"content", "summary"}) {
    const Json* parts = fields.list(name);
    if (fields.error()) return *fields.error();
    if (parts == nullptr || parts->empty()) continue;
    for (size_t i = 0; i < parts->size(); ++i) {
      const std::string own = fmt::format("{}.{}[{}]", param, name, i);
      if (!(*parts)[i].is_object()) return wrong_value(own, "must be an object");
      FieldReader part((*parts)[i], own + ".");
      const auto text = part.string("text");
      if (part.error()) return *part.error();
      if (!text) return wrong_value(own, "has no text");
      messages->add_reasoning(*text);
    }
    return {};
  }
  return {};
}

Result<void> read_item(const Json& item, const std::string& param, MessageList* messages) {
  if (!item.is_object()) return wrong_value(param, fmt::format("must be an object, got {}", describe(item)));
  const bool typed = item.contains("type") && !item["type"].is_null();
  const std::string type = typed ? PAGODA_TRY(type_of(item, param)) : "message";
  if (type == "message") return read_message(item, param, messages);
  if (type == "function_call") return read_call(item, param, messages);
  if (type == "function_call_output") return read_call_output(item, param, messages);
  if (type == "reasoning") return read_reasoning(item, param, messages);
  if (type == "item_reference") {
    return wrong_value(param + ".type", "is item_reference; this server stores no items, so send the item");
  }
  return wrong_value(param + ".type",
                     fmt::format("is {}; only message, function_call, function_call_output and reasoning are "
                                 "supported",
                                 describe(Json(type))));
}

}  // namespace

Result<void> read_responses_input(const Json& input, MessageList* messages) {
  if (input.is_string()) {
    messages->add_text("user", {input.get<std::string>()}, "input", false);
    return {};
  }
  if (!input.is_array())
    return wrong_value("input", fmt::format("must be a string or a list of items, got {}", describe(input)));
  if (input.empty()) return wrong_value("input", "must not be an empty list");
  for (size_t i = 0; i < input.size(); ++i) {
    PAGODA_TRY(read_item(input[i], fmt::format("input[{}]", i), messages));
  }
  return {};
}

}  // namespace pagoda::openai
