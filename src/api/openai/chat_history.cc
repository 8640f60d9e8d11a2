#include "api/openai/chat_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "api/openai/field_reader.h"

namespace pagoda::openai {
namespace {

constexpr std::string_view kProbeName = "pagoda_probe", kProbeKey = "pagoda_key",
                           kProbeValue = "pagoda_value";
constexpr size_t kShortIdLength = 9;

Json probe_context(const HistoryShape& shape, const Json& content) {
  const Json object = {{std::string(kProbeKey), std::string(kProbeValue)}};
  const Json call = {{"id", "a1b2c3d4e"},
                     {"type", "function"},
                     {"function",
                      {{"name", std::string(kProbeName)},
                       {"arguments", shape.string_arguments ? Json(dump_json(object)) : object}}}};
  const Json messages = {
      {{"role", "user"}, {"content", "u"}},
      {{"role", "assistant"}, {"content", content}, {"tool_calls", Json::array({call})}},
      {{"role", "tool"}, {"tool_call_id", "a1b2c3d4e"}, {"name", std::string(kProbeName)}, {"content", "r"}}};
  return {{"messages", messages},          {"tools", nullptr}, {"documents", nullptr},
          {"add_generation_prompt", true}, {"bos_token", ""},  {"eos_token", ""}};
}

size_t count(std::string_view text, std::string_view word) {
  size_t found = 0;
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

// The call is there, its arguments are not as Python prints them, and no null became text.
bool is_sound(const RenderFunction& render, const HistoryShape& shape) {
  const Json content = shape.null_content ? Json(nullptr) : Json("");
  const auto text = render(dump_json(probe_context(shape, content)));
  if (!text) return false;
  const auto has = [&](const std::string& part) { return text->find(part) != std::string::npos; };
  if (!has(std::string(kProbeName)) || !has(std::string(kProbeValue))) return false;
  if (has(fmt::format("'{}'", kProbeKey)) || has(fmt::format("\\\"{}", kProbeKey))) return false;
  if (!shape.null_content) return true;
  const auto with_text = render(dump_json(probe_context(shape, "t")));
  return !with_text || count(*text, "None") <= count(*with_text, "None");
}

Error wrong_calls(size_t index, std::string what) {
  const std::string param = fmt::format("messages[{}]", index);
  return make_error(ErrorKind::kInvalidArgument, fmt::format("{}.tool_calls {}.", param, what),
                    param + ".tool_calls");
}

// Clients send the text of an object; "" and null are none.
Result<void> normalise_arguments(Json& function, size_t index, bool as_string) {
  Json& arguments = function["arguments"];
  std::string text = arguments.is_string() ? arguments.get<std::string>() : std::string();
  if (arguments.is_null() || (arguments.is_string() && text.empty())) {
    arguments = Json::object();
  } else if (arguments.is_string()) {
    auto parsed = parse_json(text);
    if (!parsed || !parsed->is_object()) {
      return wrong_calls(index, "has arguments that are not the text of a JSON object");
    }
    arguments = std::move(*parsed);
  } else if (!arguments.is_object()) {
    return wrong_calls(index, fmt::format("has arguments that are {}, not an object", describe(arguments)));
  }
  if (as_string) arguments = text.empty() ? dump_json(arguments) : std::move(text);
  return {};
}

class Normaliser {
 public:
  explicit Normaliser(const HistoryShape& shape) : shape_(shape) {}

  Result<void> message(Json& message, size_t index) {
    rename_reasoning(message);
    convert_legacy(message);
    PAGODA_TRY(calls(message, index));
    const auto id = message.find("tool_call_id");
    if (id != message.end() && id->is_string()) *id = call_id(id->get<std::string>());
    return {};
  }

 private:
  static void rename_reasoning(Json& message) {
    const auto reasoning = message.find("reasoning");
    if (reasoning == message.end() || !reasoning->is_string() || message.contains("reasoning_content"))
      return;
    message["reasoning_content"] = Json(*reasoning);
  }

  void convert_legacy(Json& message) {
    const auto call = message.find("function_call");
    if (call != message.end()) {
      if (call->is_object() && !message.contains("tool_calls")) {
        legacy_id_ = fmt::format("call{:05}", ++legacy_calls_);
        message["tool_calls"] =
            Json::array({{{"id", legacy_id_}, {"type", "function"}, {"function", Json(*call)}}});
      }
      message.erase("function_call");
    }
    if (message["role"] != "function") return;
    message["role"] = "tool";
    if (!legacy_id_.empty()) message["tool_call_id"] = legacy_id_;
  }

  Result<void> calls(Json& message, size_t index) {
    const auto calls = message.find("tool_calls");
    if (calls == message.end()) return {};
    if (calls->is_null() || (calls->is_array() && calls->empty())) {
      message.erase("tool_calls");
      return {};
    }
    if (!calls->is_array())
      return wrong_calls(index, fmt::format("must be a list, got {}", describe(*calls)));
    for (Json& call : *calls) {
      const auto function = call.is_object() ? call.find("function") : call.end();
      if (!call.is_object() || function == call.end() || !function->is_object()) {
        return wrong_calls(index, "must hold objects with an object in function");
      }
      const auto name = function->find("name");
      if (name == function->end() || !name->is_string())
        return wrong_calls(index, "has a function without a name");
      PAGODA_TRY(normalise_arguments(*function, index, shape_.string_arguments));
      const auto id = call.find("id");
      if (id != call.end() && id->is_string()) *id = call_id(id->get<std::string>());
    }
    Json& content = message["content"];
    if (shape_.null_content && (content == "" || content == Json::array())) content = nullptr;
    return {};
  }

  // Ids of other servers, made short; the same id stays the same.
  std::string call_id(const std::string& id) const {
    const auto is_plain = [](unsigned char c) { return std::isalnum(c) != 0; };
    if (!shape_.short_ids || (id.size() == kShortIdLength && std::all_of(id.begin(), id.end(), is_plain)))
      return id;
    uint64_t hash = 0xcbf29ce484222325u;
    for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    std::string result;
    for (size_t i = 0; i < kShortIdLength; ++i, hash /= 36) {
      result += "0123456789abcdefghijklmnopqrstuvwxyz"[hash % 36];
    }
    return result;
  }

  const HistoryShape shape_;
  int legacy_calls_ = 0;
  std::string legacy_id_;
};

}  // namespace

HistoryShape probe_history(const RenderFunction& render) {
  constexpr std::array kShapes = {HistoryShape{false, false, false}, HistoryShape{false, true, false},
                                  HistoryShape{true, false, false}, HistoryShape{true, true, false}};
  const auto sound = std::find_if(kShapes.begin(), kShapes.end(),
                                  [&](const HistoryShape& shape) { return is_sound(render, shape); });
  return sound == kShapes.end() ? HistoryShape{} : *sound;
}

Result<void> normalise_history(Json& messages, const HistoryShape& shape) {
  Normaliser normaliser(shape);
  for (size_t i = 0; i < messages.size(); ++i) PAGODA_TRY(normaliser.message(messages[i], i));
  return {};
}

}  // namespace pagoda::openai
