#include "api/openai/chat_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "api/openai/chat_history.h"

namespace pagoda::openai {
namespace {

// What chat_template_kwargs must not replace: names of the context itself and the functions that templates
// rely on.
constexpr std::array<std::string_view, 15> kReservedNames = {"messages",
                                                             "tools",
                                                             "documents",
                                                             "add_generation_prompt",
                                                             "continue_final_message",
                                                             "bos_token",
                                                             "eos_token",
                                                             "pad_token",
                                                             "unk_token",
                                                             "chat_template",
                                                             "conversation",
                                                             "raise_exception",
                                                             "strftime_now",
                                                             "tokenize",
                                                             "return_dict"};

constexpr size_t kMaxTemplateArguments = 64;  // templates know about five

Error wrong_message(size_t index, std::string_view field, std::string message) {
  std::string param = "messages[" + std::to_string(index) + "]";
  if (!field.empty()) param.append(".").append(field);
  return make_error(ErrorKind::kInvalidArgument, fmt::format("{} {}.", param, message), param);
}

// The texts of `parts`, checked. Parts of other kinds (images, audio) need a model that this program can't
// run.
Result<std::vector<std::string>> read_parts(const Json& parts, size_t index) {
  if (parts.empty()) return wrong_message(index, "content", "must not be an empty list");
  std::vector<std::string> texts;
  for (const Json& part : parts) {
    if (part.is_string()) {
      texts.push_back(part.get<std::string>());
      continue;
    }
    const auto type = part.is_object() ? part.find("type") : part.end();
    if (!part.is_object() || type == part.end() || !type->is_string()) {
      return wrong_message(index, "content", "must hold objects with a string in type");
    }
    const auto& name = type->get_ref<const std::string&>();
    if (name != "text" && name != "input_text" && name != "output_text" && name != "refusal") {
      return wrong_message(index, "content",
                           fmt::format("has a part of type {}; only text is supported", describe(*type)));
    }
    const auto text = part.find(name == "refusal" ? "refusal" : "text");
    if (text == part.end() || !text->is_string()) {
      return wrong_message(index, "content",
                           fmt::format("has a part of type {} without its text", describe(*type)));
    }
    texts.push_back(text->get<std::string>());
  }
  return texts;
}

Json content_value(const std::vector<std::string>& texts, bool as_parts) {
  if (!as_parts) {
    std::string joined;
    for (const std::string& text : texts) joined.append(&text == &texts.front() ? "" : "\n").append(text);
    return joined;
  }
  Json parts = Json::array();
  for (const std::string& text : texts) parts.push_back({{"type", "text"}, {"text", text}});
  return parts;
}

Result<Json> read_content(const Json& message, size_t index, const ParseOptions& options) {
  const auto found = message.find("content");
  if (found == message.end() || found->is_null()) {
    const auto& role = message["role"].get_ref<const std::string&>();
    if (role != "assistant") return wrong_message(index, "content", "is required");
    return Json("");
  }
  if (found->is_string()) {
    return content_value({found->get<std::string>()}, options.content_parts);
  }
  if (!found->is_array()) {
    return wrong_message(index, "content",
                         fmt::format("must be a string or a list of parts, got {}", describe(*found)));
  }
  return content_value(PAGODA_TRY(read_parts(*found, index)), options.content_parts);
}

Result<Json> read_message(const Json& message, size_t index, const ParseOptions& options) {
  if (!message.is_object()) {
    return wrong_message(index, "", fmt::format("must be an object, got {}", describe(message)));
  }
  const auto role = message.find("role");
  if (role == message.end() || role->is_null()) return wrong_message(index, "role", "is required");
  if (!role->is_string() || role->get_ref<const std::string&>().empty()) {
    return wrong_message(index, "role", fmt::format("must be a non-empty string, got {}", describe(*role)));
  }
  const auto& name = role->get_ref<const std::string&>();
  const auto known = options.roles.resolve(name);
  if (!known) {
    return wrong_message(
        index, "role",
        fmt::format("must be system, developer, user, assistant or tool, got {}", describe(*role)));
  }
  Json result = message;
  result["role"] = *known;
  result["content"] = PAGODA_TRY(read_content(message, index, options));
  return result;
}

Result<Json> read_messages(const Json* messages, const ParseOptions& options) {
  const auto wrong = [](std::string text) {
    return make_error(ErrorKind::kInvalidArgument, std::move(text), "messages");
  };
  if (messages == nullptr) return wrong("messages is required.");
  if (!messages->is_array())
    return wrong(fmt::format("messages must be a list, got {}.", describe(*messages)));
  if (messages->empty()) return wrong("messages must not be empty.");
  Json result = Json::array();
  for (size_t i = 0; i < messages->size(); ++i) {
    result.push_back(PAGODA_TRY(read_message((*messages)[i], i, options)));
  }
  PAGODA_TRY(normalise_history(result, options.history));
  return result;
}

void add_kwargs(FieldReader& fields, Json* context) {
  const Json* kwargs = fields.object("chat_template_kwargs");
  if (kwargs == nullptr) return;
  if (kwargs->size() > kMaxTemplateArguments) {
    return fields.fail("chat_template_kwargs",
                       fmt::format("chat_template_kwargs has {} entries; at most {} are allowed.",
                                   kwargs->size(), kMaxTemplateArguments));
  }
  for (const auto& item : kwargs->items()) {
    if (std::find(kReservedNames.begin(), kReservedNames.end(), item.key()) != kReservedNames.end()) {
      return fields.fail(
          "chat_template_kwargs",
          fmt::format("chat_template_kwargs must not set {}: the server sets it.", item.key()));
    }
    (*context)[item.key()] = item.value();
  }
}

void add_documents(FieldReader& fields, Json* context) {
  const Json* documents = fields.list("documents");
  (*context)["documents"] = documents == nullptr ? Json(nullptr) : *documents;
}

void add_reasoning_effort(FieldReader& fields, Json* context) {
  const auto effort = fields.string("reasoning_effort");
  if (!effort) return;
  static constexpr std::array<std::string_view, 6> kLevels = {"none",   "minimal", "low",
                                                              "medium", "high",    "xhigh"};
  if (std::find(kLevels.begin(), kLevels.end(), *effort) == kLevels.end()) {
    return fields.fail(
        "reasoning_effort",
        fmt::format("reasoning_effort must be none, minimal, low, medium, high or xhigh, got {}.",
                    describe(Json(*effort))));
  }
  (*context)["reasoning_effort"] = *effort;
  if (*effort != "none") return;
  // What templates call it; chat_template_kwargs may say otherwise.
  (*context)["enable_thinking"] = (*context)["thinking"] = false;
}

}  // namespace

std::string read_chat_context(FieldReader& fields, const ParseOptions& options, const Json& tools) {
  Json context = Json::object();
  auto messages = read_messages(fields.value("messages"), options);
  if (!messages) {
    fields.fail(std::move(messages).error());
    return {};
  }
  context["messages"] = std::move(*messages);
  context["tools"] = tools;
  add_documents(fields, &context);
  const bool continues = fields.boolean("continue_final_message").value_or(false);
  const auto generation_prompt = fields.boolean("add_generation_prompt");
  if (continues && generation_prompt.value_or(false)) {
    fields.fail("continue_final_message",
                "continue_final_message and add_generation_prompt must not both be true.");
  }
  context["add_generation_prompt"] = generation_prompt.value_or(!continues);
  if (continues) context["continue_final_message"] = true;
  for (const auto& [name, text] : options.template_variables) context[name] = text;
  if (fields.present("chat_template")) {
    fields.fail("chat_template", "A chat template in a request is not allowed; the server's own is used.");
  }
  add_reasoning_effort(fields, &context);
  add_kwargs(fields, &context);
  return dump_json(context);
}

}  // namespace pagoda::openai
