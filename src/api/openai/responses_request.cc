#include "api/openai/responses_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "api/openai/chat_translation.h"
#include "api/openai/common_fields.h"
#include "api/openai/responses_input.h"

namespace pagoda::openai {
namespace {

// As OpenAI has them.
constexpr size_t kMaxMetadata = 16;
constexpr size_t kMaxMetadataKey = 64;
constexpr size_t kMaxMetadataValue = 512;

size_t characters(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](unsigned char c) { return (c & 0xC0u) != 0x80u; }));
}

// Reads one request: each function takes some fields, gives the chat body what chat calls them, and the
// response object what it repeats.
class Translation {
 public:
  explicit Translation(const Json& body) : fields_(body), chat_(shared_chat_fields(fields_)) {}

  Result<ResponsesRequest> read(const ParseOptions& options) {
    refuse_stored_state();
    read_messages();
    read_tools();
    read_tool_choice();
    read_text();
    read_reasoning();
    read_logprobs();
    read_limits();
    read_labels();
    auto unknown = PAGODA_TRY(finish_translation(fields_, options, std::move(ignored_)));
    names_.add("max_completion_tokens", "max_output_tokens");
    auto chat = PAGODA_TRY(names_.read(chat_, options, std::move(unknown)));
    ResponsesRequest request{std::move(chat), std::move(echo_)};
    const SamplingFields& sampling = request.chat.common.sampling;
    request.echo["temperature"] = sampling.temperature;
    request.echo["top_p"] = sampling.top_p;
    return request;
  }

 private:
  void refuse_stored_state() {
    for (const char* name : {"previous_response_id", "conversation", "prompt"}) {
      if (!fields_.present(name)) continue;
      fields_.fail(name, fmt::format("{} is not supported: this server stores no responses, conversations or "
                                     "prompts. Send the whole input.",
                                     name));
    }
    if (fields_.boolean("background").value_or(false)) {
      fields_.fail("background", "background must be false: this server stores no responses.");
    }
    (void)fields_.boolean("store");
    echo_["background"] = false;
    echo_["previous_response_id"] = nullptr;
    echo_["store"] = false;
  }

  void read_messages() {
    MessageList messages;
    const auto instructions = fields_.string("instructions");
    if (instructions && !instructions->empty())
      messages.add_text("system", {*instructions}, "instructions", true);
    echo_["instructions"] = instructions ? Json(*instructions) : Json(nullptr);
    const Json* input = fields_.value("input");
    if (input == nullptr) return fields_.fail("input", "input is required.");
    const auto done = read_responses_input(*input, &messages);
    if (!done) return fields_.fail(done.error());
    if (messages.empty()) return fields_.fail("input", "input holds no message.");
    names_.add("messages", "input");
    chat_["messages"] = messages.take(&names_);
  }

  void read_tools() {
    echo_["tools"] = Json::array();
    const Json* tools = fields_.list("tools");
    if (tools == nullptr) return;
    Json list = Json::array();
    for (size_t i = 0; i < tools->size(); ++i) {
      auto function = read_tool((*tools)[i], fmt::format("tools[{}]", i));
      if (!function) return fields_.fail(function.error());
      names_.add(fmt::format("tools[{}].function", i), fmt::format("tools[{}]", i));
      Json shown = {{"type", "function"}};
      shown.update(*function);
      echo_["tools"].push_back(std::move(shown));
      list.push_back({{"type", "function"}, {"function", without_nulls(std::move(*function))}});
    }
    if (!list.empty()) chat_["tools"] = std::move(list);
  }

  static Result<Json> read_tool(const Json& tool, const std::string& param) {
    const std::string type = PAGODA_TRY(type_of(tool, param));
    if (type != "function") {
      return wrong_value(
          param + ".type",
          fmt::format("is {}; this server runs no tools of its own, only function is supported",
                      describe(Json(type))));
    }
    Json function = Json::object();
    for (const char* name : {"name", "description", "parameters", "strict"}) {
      const auto found = tool.find(name);
      function[name] = found == tool.end() ? Json(nullptr) : *found;
    }
    return function;
  }

  static Json without_nulls(Json object) {
    Json result = Json::object();
    for (auto& item : object.items()) {
      if (!item.value().is_null()) result[item.key()] = std::move(item.value());
    }
    return result;
  }

  void read_tool_choice() {
    const auto parallel = fields_.boolean("parallel_tool_calls");
    if (parallel) chat_["parallel_tool_calls"] = *parallel;
    echo_["parallel_tool_calls"] = parallel.value_or(true);
    const Json* choice = fields_.value("tool_choice");
    echo_["tool_choice"] = choice == nullptr ? Json("auto") : *choice;
    if (choice == nullptr) return;
    if (!choice->is_object()) {
      chat_["tool_choice"] = *choice;
      return;
    }
    FieldReader inner(*choice, "tool_choice.");
    const std::string type = inner.string("type").value_or("");
    if (!inner.error() && type != "function") {
      return fields_.fail(
          wrong_value("tool_choice.type", fmt::format("must be function, got {}", describe(Json(type)))));
    }
    const std::string name = required_string(inner, "tool_choice.", "name");
    if (inner.error()) return fields_.fail(*inner.error());
    chat_["tool_choice"] = {{"type", "function"}, {"function", {{"name", name}}}};
    names_.add("tool_choice.function", "tool_choice");
  }

  void read_text() {
    Json shown = {{"format", {{"type", "text"}}}, {"verbosity", "medium"}};
    if (const Json* text = fields_.object("text")) {
      FieldReader inner(*text, "text.");
      const std::string verbosity = inner.string("verbosity").value_or("medium");
      if (verbosity != "medium") ignored_.emplace_back("text.verbosity");
      if (const Json* format = inner.object("format")) {
        shown["format"] = *format;
        read_format(*format);
      }
      fields_.finish(inner);
    }
    echo_["text"] = std::move(shown);
  }

  // Chat has the schema one level deeper.
  void read_format(const Json& format) {
    names_.add("response_format", "text.format");
    names_.add("response_format.json_schema", "text.format");
    const auto type = format.find("type");
    if (type == format.end() || *type != "json_schema") {
      chat_["response_format"] = format;
      return;
    }
    Json schema = format;
    schema.erase("type");
    chat_["response_format"] = {{"type", "json_schema"}, {"json_schema", std::move(schema)}};
  }

  void read_reasoning() {
    Json shown = {{"effort", nullptr}, {"summary", nullptr}};
    if (const Json* reasoning = fields_.object("reasoning")) {
      FieldReader inner(*reasoning, "reasoning.");
      if (const auto effort = inner.string("effort")) shown["effort"] = chat_["reasoning_effort"] = *effort;
      auto summary = inner.string("summary");
      const auto old_summary = inner.string("generate_summary");
      if (!summary) summary = old_summary;
      // The reasoning itself is in the answer; no summary is made of it.
      if (summary) shown["summary"] = *summary;
      fields_.finish(inner);
    }
    names_.add("reasoning_effort", "reasoning.effort");
    echo_["reasoning"] = std::move(shown);
  }

  void read_logprobs() {
    static constexpr std::array<std::string_view, 9> kKnown = {"message.output_text.logprobs",
                                                               "reasoning.encrypted_content",
                                                               "file_search_call.results",
                                                               "web_search_call.results",
                                                               "web_search_call.action.sources",
                                                               "code_interpreter_call.outputs",
                                                               "computer_call_output.output.image_url",
                                                               "message.input_image.image_url",
                                                               "message.input_file.file_url"};
    bool wanted = false;
    if (const Json* include = fields_.list("include")) {
      for (const Json& item : *include) {
        const bool known = item.is_string() && std::find(kKnown.begin(), kKnown.end(),
                                                         item.get_ref<const std::string&>()) != kKnown.end();
        if (!known) {
          return fields_.fail("include",
                              fmt::format("include must hold names of output that this API knows, got {}; "
                                          "message.output_text.logprobs is one.",
                                          describe(item)));
        }
        wanted = wanted || item == kKnown[0];
      }
    }
    const Json* top = fields_.value("top_logprobs");
    echo_["top_logprobs"] = top == nullptr ? Json(0) : *top;
    if (top != nullptr && !wanted && *top != 0) {
      return fields_.fail("top_logprobs",
                          "top_logprobs needs message.output_text.logprobs to be in include.");
    }
    if (!wanted) return;
    chat_["logprobs"] = true;
    if (top != nullptr) chat_["top_logprobs"] = *top;
  }

  void read_limits() {
    const auto max_tokens = fields_.integer("max_output_tokens", 1, INT64_MAX);
    if (max_tokens) chat_["max_completion_tokens"] = *max_tokens;
    echo_["max_output_tokens"] = max_tokens ? Json(*max_tokens) : Json(nullptr);
    // Of the built-in tools, which don't exist here.
    const auto max_calls = fields_.integer("max_tool_calls", 1, INT64_MAX);
    echo_["max_tool_calls"] = max_calls ? Json(*max_calls) : Json(nullptr);
    const std::string truncation = fields_.string("truncation").value_or("disabled");
    if (truncation != "disabled") {
      fields_.fail("truncation",
                   fmt::format("truncation must be disabled, got {}; truncate_prompt_tokens cuts a prompt.",
                               describe(Json(truncation))));
    }
    echo_["truncation"] = "disabled";
    // Its numbers are part of the last event anyway.
    const Json* stream_options = fields_.object("stream_options");
    if (stream_options == nullptr) return;
    if (!chat_.contains("stream") || chat_["stream"] == false)
      fields_.fail("stream_options", "stream_options is allowed only when stream is true.");
    FieldReader inner(*stream_options, "stream_options.");
    (void)inner.boolean("include_obfuscation");
    (void)inner.boolean("include_usage");
    fields_.finish(inner);
  }

  void read_labels() {
    echo_["metadata"] = Json::object();
    if (const Json* metadata = fields_.object("metadata")) {
      if (const auto error = metadata_error(*metadata)) return fields_.fail("metadata", *error);
      echo_["metadata"] = *metadata;
    }
    for (const char* name : {"safety_identifier", "prompt_cache_key", "prompt_cache_retention", "user"}) {
      const auto text = fields_.string(name);
      echo_[name] = text ? Json(*text) : Json(nullptr);
    }
    if (echo_["user"].is_string()) chat_["user"] = echo_["user"];
    (void)fields_.object("prompt_cache_options");
    (void)fields_.string("service_tier");
    echo_["service_tier"] = "default";
  }

  static std::optional<std::string> metadata_error(const Json& metadata) {
    if (metadata.size() > kMaxMetadata)
      return fmt::format("metadata has {} entries; at most {} are allowed.", metadata.size(), kMaxMetadata);
    for (const auto& item : metadata.items()) {
      if (characters(item.key()) > kMaxMetadataKey)
        return fmt::format("A key of metadata has {} characters; at most {} are allowed.",
                           characters(item.key()), kMaxMetadataKey);
      if (!item.value().is_string())
        return fmt::format("metadata must hold strings, got {}.", describe(item.value()));
      const size_t length = characters(item.value().get_ref<const std::string&>());
      if (length > kMaxMetadataValue)
        return fmt::format("A value of metadata has {} characters; at most {} are allowed.", length,
                           kMaxMetadataValue);
    }
    return std::nullopt;
  }

  FieldReader fields_;
  Json chat_;
  Json echo_ = Json::object();
  FieldNames names_;
  std::vector<std::string> ignored_;  // for the warning header, beside unknown fields
};

}  // namespace

Result<ResponsesRequest> parse_responses_request(std::string_view body, const ParseOptions& options) {
  const Json json = PAGODA_TRY(parse_object(body));
  return Translation(json).read(options);
}

Error responses_error(Error error) {
  FieldNames names;
  names.add("messages", "input");
  names.add("max_tokens", "max_output_tokens");
  error.param = names.own_name(error.param);
  return error;
}

}  // namespace pagoda::openai
