#include "api/openai/tool_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace pagoda::openai {
namespace {

// Agents with many plug-ins have a few hundred.
constexpr size_t kMaxTools = 1024;
constexpr size_t kMaxToolBytes = size_t{4} << 20;  // of all together
constexpr size_t kMaxNameBytes = 128;

Error wrong(const std::string& param, std::string what) {
  return make_error(ErrorKind::kInvalidArgument, fmt::format("{} {}.", param, what), param);
}

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("_-.:/").find(c) != std::string_view::npos;
}

Result<std::string> read_name(const Json& function, const std::string& param) {
  const auto found = function.find("name");
  if (found == function.end() || found->is_null()) return wrong(param, "is required");
  if (!found->is_string()) return wrong(param, fmt::format("must be a string, got {}", describe(*found)));
  const auto& name = found->get_ref<const std::string&>();
  if (name.empty() || name.size() > kMaxNameBytes || !std::all_of(name.begin(), name.end(), is_name_char)) {
    return wrong(param, fmt::format("must be 1 to {} letters, digits and _ - . : /, got {}", kMaxNameBytes,
                                    describe(*found)));
  }
  return name;
}

// `param` names the function: "tools[0].function" or "functions[0]".
Result<ToolSpec> read_function(const Json& function, const std::string& param) {
  if (!function.is_object())
    return wrong(param, fmt::format("must be an object, got {}", describe(function)));
  ToolSpec spec;
  spec.name = PAGODA_TRY(read_name(function, param + ".name"));
  const auto text = function.find("description");
  if (text != function.end() && !text->is_null() && !text->is_string()) {
    return wrong(param + ".description", fmt::format("must be a string, got {}", describe(*text)));
  }
  const auto strict = function.find("strict");
  if (strict != function.end() && !strict->is_null() && !strict->is_boolean()) {
    return wrong(param + ".strict", fmt::format("must be true or false, got {}", describe(*strict)));
  }
  const auto schema = function.find("parameters");
  const bool has_schema = schema != function.end() && !schema->is_null();
  if (has_schema && !schema->is_object()) {
    return wrong(param + ".parameters", fmt::format("must be a JSON schema, got {}", describe(*schema)));
  }
  if (has_schema && schema->contains("type") && (*schema)["type"] != "object") {
    return wrong(param + ".parameters",
                 fmt::format("must be the schema of an object, got type {}", describe((*schema)["type"])));
  }
  spec.parameters_json = has_schema ? dump_json(*schema) : "{}";
  return spec;
}

Result<ToolSpec> read_tool(const Json& tool, const std::string& param) {
  if (!tool.is_object()) return wrong(param, fmt::format("must be an object, got {}", describe(tool)));
  const auto type = tool.find("type");
  if (type == tool.end() || !type->is_string()) return wrong(param + ".type", "must be \"function\"");
  if (*type != "function") {
    return wrong(param + ".type", fmt::format("must be \"function\"; {} is not supported", describe(*type)));
  }
  const auto function = tool.find("function");
  if (function == tool.end()) return wrong(param + ".function", "is required");
  return read_function(*function, param + ".function");
}

Result<std::vector<ToolSpec>> read_list(const Json& list, const char* field) {
  if (!list.is_array()) return wrong(field, fmt::format("must be a list, got {}", describe(list)));
  if (list.size() > kMaxTools) {
    return wrong(field, fmt::format("has {} entries; at most {} are allowed", list.size(), kMaxTools));
  }
  std::vector<ToolSpec> specs;
  std::set<std::string> names;
  size_t bytes = 0;
  for (const Json& entry : list) {
    const std::string param = fmt::format("{}[{}]", field, specs.size());
    const bool is_tool = std::string_view(field) == "tools";
    specs.push_back(PAGODA_TRY(is_tool ? read_tool(entry, param) : read_function(entry, param)));
    bytes += specs.back().parameters_json.size();
    if (names.insert(specs.back().name).second) continue;
    return wrong(
        param + (is_tool ? ".function.name" : ".name"),
        fmt::format("is {}, as an earlier tool's; names must differ", describe(Json(specs.back().name))));
  }
  if (bytes > kMaxToolBytes) {
    return wrong(field, fmt::format("has schemas of {} bytes; at most {} are allowed", bytes, kMaxToolBytes));
  }
  return specs;
}

// The name in {"type": "function", "function": {"name": ...}}, or in function_call's {"name": ...}.
Result<std::string> read_chosen_name(const Json& choice, const std::string& param, bool legacy) {
  if (legacy) return read_name(choice, param + ".name");
  const auto type = choice.find("type");
  if (type == choice.end() || *type != "function") {
    return wrong(param + ".type", fmt::format("must be \"function\", got {}",
                                              type == choice.end() ? "nothing" : describe(*type)));
  }
  const auto function = choice.find("function");
  if (function == choice.end() || !function->is_object()) {
    return wrong(param + ".function", "must be an object with the name of a tool");
  }
  return read_name(*function, param + ".function.name");
}

class ChoiceReader {
 public:
  ChoiceReader(FieldReader& fields, ToolUse* use) : fields_(fields), use_(use) {}

  void read() {
    const Json* tool_choice = fields_.value("tool_choice");
    const Json* function_call = fields_.value("function_call");
    const bool legacy = tool_choice == nullptr && function_call != nullptr;
    const std::string param = legacy ? "function_call" : "tool_choice";
    const Json* choice = legacy ? function_call : tool_choice;
    use_->choice = use_->callable.empty() ? ToolUse::Choice::kNone : ToolUse::Choice::kAuto;
    if (choice == nullptr || *choice == "auto") return;
    if (*choice == "none") {
      use_->choice = ToolUse::Choice::kNone;
      return;
    }
    const bool is_known = choice->is_object() || (*choice == "required" && !legacy);
    if (!is_known) {
      return fields_.fail(wrong(
          param, fmt::format("must be none, auto, {}or an object that names a {}, got {}",
                             legacy ? "" : "required, ", legacy ? "function" : "tool", describe(*choice))));
    }
    std::string name;
    if (choice->is_object()) {
      auto chosen = read_chosen_name(*choice, param, legacy);
      if (!chosen) {
        Error error = std::move(chosen).error();
        error.param = param;
        return fields_.fail(std::move(error));
      }
      name = std::move(*chosen);
    }
    if (use_->callable.empty()) {
      return fields_.fail(
          wrong(param, fmt::format("{} needs tools, and the request has none; none and auto are "
                                   "allowed",
                                   describe(*choice))));
    }
    if (choice->is_object()) return choose(name, param);
    use_->choice = ToolUse::Choice::kRequired;
  }

 private:
  void choose(const std::string& name, const std::string& param) {
    std::erase_if(use_->callable, [&](const ToolSpec& tool) { return tool.name != name; });
    use_->choice = ToolUse::Choice::kNamed;
    use_->one_call = true;
    if (!use_->callable.empty()) return;
    fields_.fail(wrong(param, fmt::format("names {}, which is not among the tools", describe(Json(name)))));
  }

  FieldReader& fields_;
  ToolUse* use_;
};

Json as_tools(const Json& functions) {
  Json tools = Json::array();
  for (const Json& function : functions) tools.push_back({{"type", "function"}, {"function", function}});
  return tools;
}

}  // namespace

ToolUse read_shown_tools(FieldReader& fields) {
  ToolUse use;
  const Json* tools = fields.value("tools");
  const Json* functions = fields.value("functions");
  if (tools != nullptr && functions != nullptr) {
    fields.fail(wrong("functions", "and tools exclude each other"));
    return use;
  }
  use.legacy = functions != nullptr;
  const Json* list = use.legacy ? functions : tools;
  if (list == nullptr) return use;
  auto specs = read_list(*list, use.legacy ? "functions" : "tools");
  if (!specs) {
    fields.fail(std::move(specs).error());
    return use;
  }
  use.callable = std::move(*specs);
  if (!use.callable.empty()) use.shown = use.legacy ? as_tools(*functions) : *tools;
  return use;
}

ToolUse read_tool_use(FieldReader& fields) {
  ToolUse use = read_shown_tools(fields);
  use.one_call = !fields.boolean("parallel_tool_calls").value_or(true) || use.legacy;
  ChoiceReader(fields, &use).read();
  if (use.choice == ToolUse::Choice::kNone) use.shown = nullptr;
  return use;
}

}  // namespace pagoda::openai
