#include "api/openai/output/argument_values.h"

#include <algorithm>
#include <set>

namespace pagoda::openai {
namespace {

constexpr int kMaxDepth = 8;  // nested anyOf, references

// What a reference into the schema itself points to; null for others.
const Json* resolve(const Json& root, const std::string& reference) {
  if (!reference.starts_with("#/")) return nullptr;
  try {
    const Json::json_pointer pointer(reference.substr(1));
    return root.contains(pointer) ? &root[pointer] : nullptr;
  } catch (const Json::exception&) {  // no such thing as a pointer
    return nullptr;
  }
}

void add_types(const Json& root, const Json& schema, int depth, std::set<std::string>* types) {
  if (!schema.is_object() || depth > kMaxDepth) return;
  if (const auto type = schema.find("type"); type != schema.end()) {
    if (type->is_string()) types->insert(type->get<std::string>());
    if (type->is_array()) {
      for (const Json& name : *type) {
        if (name.is_string()) types->insert(name.get<std::string>());
      }
    }
  }
  const auto reference = schema.find("$ref");
  if (reference != schema.end() && reference->is_string()) {
    const Json* target = resolve(root, reference->get<std::string>());
    if (target != nullptr) add_types(root, *target, depth + 1, types);
  }
  for (const char* key : {"anyOf", "oneOf", "allOf"}) {
    const auto list = schema.find(key);
    if (list == schema.end() || !list->is_array()) continue;
    for (const Json& each : *list) add_types(root, each, depth + 1, types);
  }
  if (!types->empty()) return;
  const auto values = schema.find("enum");
  const auto value = schema.find("const");
  if (values != schema.end() && values->is_array()) {
    for (const Json& each : *values) types->insert(each.type_name());
  } else if (value != schema.end()) {
    types->insert(value->type_name());
  }
}

std::set<std::string> types_of(const ToolSpec* tool, std::string_view name) {
  if (tool == nullptr) return {};
  const auto schema = parse_json(tool->parameters_json);
  if (!schema || !schema->is_object()) return {};
  const auto properties = schema->find("properties");
  if (properties == schema->end() || !properties->is_object()) return {};
  const auto property = properties->find(std::string(name));
  if (property == properties->end()) return {};
  return argument_types(*schema, *property);
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

std::set<std::string> argument_types(const Json& root, const Json& schema) {
  std::set<std::string> types;
  add_types(root, schema, 0, &types);
  return types;
}

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
