// The OpenAPI document and the tables of docs/API.md, both from the one description of contract.cc.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>

#include "api/openai/contract.h"

namespace pagoda::openai {
namespace {

// Absent and null are the same in a request, unless the field must be there.
Json with_null(Json schema) {
  if (const auto type = schema.find("type"); type != schema.end()) {
    if (type->is_string()) *type = Json::array({*type});
    if (std::find(type->begin(), type->end(), "null") == type->end()) type->push_back("null");
    if (const auto values = schema.find("enum"); values != schema.end()) values->push_back(nullptr);
    return schema;
  }
  return {{"anyOf", Json::array({std::move(schema), {{"type", "null"}}})}};
}

// The object that holds the field `name`, and the field's own name in it.
std::pair<Json*, std::string> parent_of(Json& body, const std::string& name) {
  const size_t dot = name.find('.');
  if (dot == std::string::npos) return {&body, name};
  return {&body["properties"][name.substr(0, dot)], name.substr(dot + 1)};
}

bool is_required(const ContractRoute& route, std::string_view name) {
  return std::find(route.required.begin(), route.required.end(), name) != route.required.end();
}

Json body_schema(const ContractRoute& route) {
  Json body = {{"type", "object"}, {"properties", Json::object()}};
  for (const char* name : route.required) body["required"].push_back(name);
  for (const FieldGroup* group : route.groups) {
    for (const ContractField& field : group->fields) {
      Json schema = Json::parse(field.schema);
      if (!is_required(route, field.name)) schema = with_null(std::move(schema));
      schema["description"] = field.meaning;
      const auto [parent, name] = parent_of(body, field.name);
      (*parent)["properties"][name] = std::move(schema);
    }
  }
  return body;
}

Json reference(const std::string& name) {
  return {{"schema", {{"$ref", "#/components/schemas/" + name}}}};
}

const char* status_text(int status) {
  switch (status) {
    case 400:
      return "The request is wrong; param names the field.";
    case 404:
      return "No such model, file, batch or route.";
    case 408:
      return "The request did not arrive in time.";
    case 413:
      return "The body is too large.";
    case 415:
      return "The body is compressed.";
    case 431:
      return "The headers are too large.";
    case 500:
      return "A bug in the server.";
    case 501:
      return "This server or model can't do that.";
    case 503:
      return "Loading, draining, or too many requests wait; see Retry-After.";
    case 504:
      return "The time limit of the request has passed.";
    case 507:
      return "The disk is full.";
    default:
      return "Error.";
  }
}

Json answers(const ContractRoute& route) {
  Json content = Json::object();
  if (route.answer_kind == AnswerKind::kText) {
    content["text/plain"] = {{"schema", {{"type", "string"}}}};
  } else if (route.answer_kind == AnswerKind::kBytes) {
    content["application/octet-stream"] = {{"schema", {{"type", "string"}, {"format", "binary"}}}};
  } else {
    content["application/json"] = reference(route.answer);
  }
  if (route.answer_kind == AnswerKind::kJsonOrStream) {
    content["text/event-stream"] = {{"schema", {{"type", "string"}}}};
  }
  Json result = {{"200", {{"description", "Success."}, {"content", std::move(content)}}}};
  for (const int status : route.statuses) {
    result[std::to_string(status)] = {{"description", status_text(status)},
                                      {"content", {{"application/json", reference(route.error)}}}};
  }
  return result;
}

Json parameters(const ContractRoute& route) {
  Json list = Json::array();
  const std::string_view path = route.path;
  if (const size_t open = path.find('{'); open != std::string_view::npos) {
    const std::string name(path.substr(open + 1, path.find('}') - open - 1));
    list.push_back({{"name", name},
                    {"in", "path"},
                    {"required", true},
                    {"schema", {{"type", "string"}, {"minLength", 1}}}});
  }
  for (const FieldGroup* group : route.query) {
    for (const ContractField& field : group->fields) {
      list.push_back({{"name", field.name},
                      {"in", "query"},
                      {"description", field.meaning},
                      {"schema", Json::parse(field.schema)}});
    }
  }
  return list;
}

Json operation(const ContractRoute& route) {
  Json result = {{"summary", route.summary}};
  if (Json list = parameters(route); !list.empty()) result["parameters"] = std::move(list);
  if (!route.groups.empty()) {
    result["requestBody"] = {{"required", true},
                             {"content", {{route.body_type, {{"schema", body_schema(route)}}}}}};
  }
  result["responses"] = answers(route);
  return result;
}

std::string type_text(const Json& schema) {
  if (const auto parts = schema.find("anyOf"); parts != schema.end()) {
    std::string text;
    for (const Json& part : *parts) text += (text.empty() ? "" : " or ") + type_text(part);
    return text;
  }
  if (const auto value = schema.find("const"); value != schema.end()) return dump_json(*value);
  if (const auto values = schema.find("enum"); values != schema.end()) {
    std::string text;
    for (const Json& value : *values) text += (text.empty() ? "" : ", ") + value.get<std::string>();
    return text;
  }
  if (!schema.contains("type")) return "any";
  const Json& type = schema["type"];
  if (type.is_array()) {
    std::string text;
    for (const Json& name : type) text += (text.empty() ? "" : " or ") + name.get<std::string>();
    return text;
  }
  const auto items = schema.find("items");
  if (type == "array" && items != schema.end()) return "[" + type_text(*items) + "]";
  return type.get<std::string>();
}

std::string number_text(const Json& number) {
  return number.is_number_float() ? fmt::format("{}", number.get<double>()) : dump_json(number);
}

std::string range_text(const Json& schema) {
  std::string text;
  const auto bound = [&](const char* key, const char* sign) {
    const auto found = schema.find(key);
    if (found != schema.end()) text += (text.empty() ? "" : ", ") + (sign + number_text(*found));
  };
  bound("minimum", ">= ");
  bound("exclusiveMinimum", "> ");
  bound("maximum", "<= ");
  bound("minLength", "bytes >= ");
  bound("maxLength", "bytes <= ");
  bound("minItems", "items >= ");
  bound("maxItems", "items <= ");
  bound("maxProperties", "entries <= ");
  return text;
}

// The routes whose body or query has this group.
std::string routes_of(const FieldGroup& group) {
  const auto has_group = [&group](std::span<const FieldGroup* const> groups) {
    return std::find(groups.begin(), groups.end(), &group) != groups.end();
  };
  std::string text;
  for (const ContractRoute& route : contract_routes()) {
    if (!has_group(route.groups) && !has_group(route.query)) continue;
    text += fmt::format("{}`{}`", text.empty() ? "" : ", ", route.path);
  }
  return text;
}

}  // namespace

std::string openapi_document(std::string_view version) {
  Json document = {{"openapi", "3.1.0"},
                   {"info", {{"title", "pagoda"}, {"version", std::string(version)}}},
                   {"paths", Json::object()}};
  for (const ContractRoute& route : contract_routes()) {
    std::string method = route.method;
    for (char& c : method) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    document["paths"][route.path][method] = operation(route);
  }
  for (const ContractSchema& schema : contract_schemas()) {
    document["components"]["schemas"][schema.name] = Json::parse(schema.schema);
  }
  return dump_json(document);
}

std::string contract_markdown() {
  std::string text = "## Routes\n\n| route | what | statuses beside 200 |\n|---|---|---|\n";
  for (const ContractRoute& route : contract_routes()) {
    std::string statuses;
    for (const int status : route.statuses)
      statuses += (statuses.empty() ? "" : ", ") + std::to_string(status);
    text += fmt::format("| `{} {}` | {} | {} |\n", route.method, route.path, route.summary, statuses);
  }
  text += "\n## Fields of requests\n";
  for (const FieldGroup* group : contract_groups()) {
    text += fmt::format(
        "\n### {}\n\nIn {}.\n\n| field | type | range | default | meaning |\n|---|---|---|---|---|\n",
        group->title, routes_of(*group));
    for (const ContractField& field : group->fields) {
      const Json schema = Json::parse(field.schema);
      text += fmt::format("| `{}` | {} | {} | {} | {} |\n", field.name, type_text(schema), range_text(schema),
                          field.fallback, field.meaning);
    }
  }
  text += "\n## Not yet built\n\n| name | what |\n|---|---|\n";
  for (const MissingPart& part : contract_missing())
    text += fmt::format("| `{}` | {} |\n", part.name, part.what);
  return text;
}

}  // namespace pagoda::openai
