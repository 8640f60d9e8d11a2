#include "api/openai/output/argument_values.h"

#include <algorithm>
#include <set>

namespace pagoda::openai {
namespace {

constexpr int kMaxUnions = 8;  // nested anyOf

// The names of the types that a schema allows; empty when it doesn't say.
void add_types(const Json& schema, int depth, std::set<std::string>* types) {
  if (!schema.is_object() || depth > kMaxUnions) return;
  if (const auto type = schema.find("type"); type != schema.end()) {
    if (type->is_string()) types->insert(type->get<std::string>());
    if (type->is_array()) {
      for (const Json& name : *type) {
        if (name.is_string()) types->insert(name.get<std::string>());
      }
    }
  }
  for (const char* key : {"anyOf", "oneOf", "allOf"}) {
    const auto list = schema.find(key);
    if (list == schema.end() || !list->is_array()) continue;
    for (const Json& each : *list) add_types(each, depth + 1, types);
  }
  const auto values = schema.find("enum");
  if (values == schema.end() || !values->is_array() || !types->empty()) return;
  for (const Json& value : *values) types->insert(value.is_number() ? "number" : value.type_name());
}

std::set<std::string> types_of(const ToolSpec* tool, std::string_view name) {
  std::set<std::string> types;
  if (tool == nullptr) return types;
  const auto schema = parse_json(tool->parameters_json);
  if (!schema || !schema->is_object()) return types;
  const auto properties = schema->find("properties");
  if (properties == schema->end() || !properties->is_object()) return types;
  const auto property = properties->find(std::string(name));
  if (property != properties->end()) add_types(*property, 0, &types);
  return types;
}

bool has_type(const Json& value, const std::set<std::string>& types) {
  if (value.is_number_integer()) return types.contains("integer") || types.contains("number");
  if (value.is_number()) return types.contains("number");
  return types.contains(value.type_name());
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") + 1 - first);
}

}  // namespace

std::string argument_json(const ToolSpec* tool, std::string_view name, std::string_view text) {
  const std::set<std::string> types = types_of(tool, name);
  const bool may_be_other = types.size() > 1 || (types.size() == 1 && !types.contains("string"));
  if (may_be_other) {
    std::string literal(trimmed(text));
    if (literal == "True" || literal == "False") literal[0] = static_cast<char>(literal[0] - 'A' + 'a');
    if (literal == "None") literal = "null";
    const auto value = parse_json(literal);
    if (value && has_type(*value, types)) return literal;
  }
  return dump_json(Json(std::string(text)));
}

}  // namespace pagoda::openai
