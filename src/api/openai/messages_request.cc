#include "api/openai/messages_request.h"

#include <fmt/format.h>

#include <string>

#include "api/openai/chat_translation.h"
#include "api/openai/common_fields.h"
#include "api/openai/messages_input.h"

namespace pagoda::openai {
namespace {

constexpr int64_t kMinThinkingTokens = 1024;  // of the reference

// Reads one request: each function takes some fields and gives the chat body what chat calls them.
class Translation {
 public:
  explicit Translation(const Json& body) : fields_(body), chat_(shared_chat_fields(fields_)) {}

  Result<MessagesRequest> read(const ParseOptions& options, bool generates) {
    const auto max_tokens = fields_.integer("max_tokens", 1, INT64_MAX);
    if (generates && !max_tokens) fields_.fail("max_tokens", "max_tokens is required.");
    read_messages();
    read_sampling();
    read_tools();
    read_tool_choice();
    read_thinking();
    read_output_config();
    read_labels();
    auto unknown = PAGODA_TRY(finish_translation(fields_, options, std::move(ignored_)));
    auto chat = PAGODA_TRY(names_.read(chat_, options, std::move(unknown)));
    request_.chat = std::move(chat);
    request_.chat.common.default_max_tokens = max_tokens;
    return std::move(request_);
  }

 private:
  void read_messages() {
    MessageList messages;
    if (const Json* system = fields_.value("system")) {
      const auto done = read_system_blocks(*system, &messages);
      if (!done) return fields_.fail(done.error());
    }
    const Json* turns = fields_.list("messages");
    if (turns == nullptr) return fields_.fail("messages", "messages is required.");
    const auto done = read_message_turns(*turns, &messages);
    if (!done) return fields_.fail(done.error());
    // An answer that is begun by the client.
    if (messages.ends_with_answer() && !fields_.present("continue_final_message"))
      chat_["continue_final_message"] = true;
    chat_["messages"] = messages.take(&names_);
  }

  void read_sampling() {
    (void)fields_.number("temperature", {0.0, 1.0});
    if (const Json* stops = fields_.list("stop_sequences")) {
      if (fields_.present("stop")) return fields_.fail("stop", "stop and stop_sequences are the same field.");
      names_.add("stop", "stop_sequences");
      chat_["stop"] = *stops;
    }
  }

  void read_tools() {
    const Json* tools = fields_.list("tools");
    if (tools == nullptr || tools->empty()) return;
    Json list = Json::array();
    for (size_t i = 0; i < tools->size(); ++i) {
      auto function = read_tool((*tools)[i], fmt::format("tools[{}]", i));
      if (!function) return fields_.fail(function.error());
      names_.add(fmt::format("tools[{}].function", i), fmt::format("tools[{}]", i));
      names_.add(fmt::format("tools[{}].function.parameters", i), fmt::format("tools[{}].input_schema", i));
      list.push_back({{"type", "function"}, {"function", std::move(*function)}});
    }
    chat_["tools"] = std::move(list);
  }

  static Result<Json> read_tool(const Json& tool, const std::string& param) {
    if (!tool.is_object())
      return wrong_value(param, fmt::format("must be an object, got {}", describe(tool)));
    FieldReader fields(tool, param + ".");
    const std::string type = fields.string("type").value_or("custom");
    if (!fields.error() && type != "custom") {
      return wrong_value(param + ".type",
                         fmt::format("is {}; this server runs no tools of its own, only custom is supported",
                                     describe(Json(type))));
    }
    Json function = {{"name", required_string(fields, param + ".", "name")}};
    if (const auto text = fields.string("description")) function["description"] = *text;
    const Json* schema = fields.object("input_schema");
    if (schema != nullptr) function["parameters"] = *schema;
    if (const auto strict = fields.boolean("strict")) function["strict"] = *strict;
    if (fields.error()) return *fields.error();
    if (schema == nullptr) return wrong_value(param + ".input_schema", "is required");
    return function;
  }

  void read_tool_choice() {
    const Json* choice = fields_.object("tool_choice");
    if (choice == nullptr) return;
    FieldReader inner(*choice, "tool_choice.");
    const std::string type = required_string(inner, "tool_choice.", "type");
    if (inner.boolean("disable_parallel_tool_use").value_or(false)) chat_["parallel_tool_calls"] = false;
    if (type == "tool") {
      const std::string name = required_string(inner, "tool_choice.", "name");
      chat_["tool_choice"] = {{"type", "function"}, {"function", {{"name", name}}}};
      names_.add("tool_choice.function", "tool_choice");
    } else if (type == "any") {
      chat_["tool_choice"] = "required";
    } else if (type == "auto" || type == "none") {
      chat_["tool_choice"] = type;
    } else if (!inner.error()) {
      inner.fail(wrong_value("tool_choice.type",
                             fmt::format("must be auto, any, tool or none, got {}", describe(Json(type)))));
    }
    fields_.finish(inner);
  }

  // Templates have one of two switches. Nothing ends a thought early, so that the budget may be any that the
  // reference takes; with thoughts between tool calls it takes more than max_tokens, and coding agents send
  // that. Without the field the model's own habit stays.
  void read_thinking() {
    const Json* thinking = fields_.object("thinking");
    if (thinking == nullptr) return;
    FieldReader inner(*thinking, "thinking.");
    const std::string type = required_string(inner, "thinking.", "type");
    if (type == "enabled") {
      const auto budget = inner.integer("budget_tokens", kMinThinkingTokens, INT64_MAX);
      if (!budget && !inner.error()) inner.fail(wrong_value("thinking.budget_tokens", "is required"));
      switch_thinking(true);
    } else if (type == "disabled") {
      switch_thinking(false);
    } else if (type != "adaptive" && type != "between_tools" && !inner.error()) {
      inner.fail(wrong_value("thinking.type", fmt::format("must be enabled, disabled or adaptive, got {}",
                                                          describe(Json(type)))));
    }
    const std::string display = inner.string("display").value_or("summarized");
    if (display != "summarized" && display != "omitted" && !inner.error())
      inner.fail(wrong_value("thinking.display", "must be summarized or omitted"));
    request_.omit_thinking = display == "omitted";
    fields_.finish(inner);
  }

  void switch_thinking(bool on) {
    Json& arguments = chat_["chat_template_kwargs"];
    if (arguments.is_null()) arguments = Json::object();
    if (!arguments.is_object()) return;  // an error, and chat says so
    for (const char* name : {"enable_thinking", "thinking"}) {
      if (!arguments.contains(name)) arguments[name] = on;
    }
  }

  void read_output_config() {
    const Json* config = fields_.object("output_config");
    if (config == nullptr) return;
    FieldReader inner(*config, "output_config.");
    if (const auto effort = inner.string("effort")) {
      names_.add("reasoning_effort", "output_config.effort");
      chat_["reasoning_effort"] = *effort == "max" ? "xhigh" : *effort;
    }
    if (const Json* format = inner.object("format")) {
      const auto type = format->find("type");
      const auto schema = format->find("schema");
      if (type == format->end() || *type != "json_schema" || schema == format->end()) {
        inner.fail(
            wrong_value("output_config.format", "must be an object with the type json_schema and a schema"));
      } else {
        names_.add("response_format", "output_config.format");
        names_.add("response_format.json_schema", "output_config.format");
        chat_["response_format"] = {
            {"type", "json_schema"},
            {"json_schema", {{"name", "output"}, {"strict", true}, {"schema", *schema}}}};
      }
    }
    fields_.finish(inner);
  }

  void read_labels() {
    if (const Json* metadata = fields_.object("metadata")) {
      FieldReader inner(*metadata, "metadata.");
      if (const auto user = inner.string("user_id")) chat_["user"] = *user;
      fields_.finish(inner);
    }
    (void)fields_.object("cache_control");
    (void)fields_.string("service_tier");
  }

  FieldReader fields_;
  Json chat_;
  FieldNames names_;
  std::vector<std::string> ignored_;  // for the warning header, beside unknown fields
  MessagesRequest request_;
};

}  // namespace

Result<MessagesRequest> parse_messages_request(std::string_view body, const ParseOptions& options) {
  const Json json = PAGODA_TRY(parse_object(body));
  return Translation(json).read(options, true);
}

Result<MessagesRequest> parse_count_tokens_request(std::string_view body, const ParseOptions& options) {
  const Json json = PAGODA_TRY(parse_object(body));
  return Translation(json).read(options, false);
}

}  // namespace pagoda::openai
