#include "api/openai/output/tool_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "api/openai/json_text.h"
#include "api/openai/output/argument_values.h"

namespace pagoda::openai {
namespace {

// White space inside JSON; without a bound a model could write it for ever.
constexpr const char* kJsonSpace = "[\\x20\\x0A\\x0D\\x09]{1,20}";

std::string literal(std::string_view text) {
  return text.empty() ? std::string() : dump_json(Json(std::string(text))) + " ";
}

// A small model that is made to call tools may repeat a call for as long as it is allowed to.
constexpr const char* kMoreCalls = "{0,15}";

class Grammar {
 public:
  explicit Grammar(const OutputParsing& parsing)
      : parsing_(parsing), format_(*parsing.format), syntax_(parsing.format->tools) {}

  std::string forced_calls() {
    add_calls();
    rule("start", reasoning() + "calls");
    return rules_;
  }

  std::string answer(const std::string& schema_json) {
    auto schema = parse_json(schema_json);
    Json object = schema && schema->is_object() ? std::move(*schema) : Json::object();
    object["x-guidance"] = {{"whitespace_pattern", kJsonSpace}};
    rule("answer", "%json " + dump_json(object));
    if (parsing_.tools) add_calls();
    rule("start", reasoning() + (parsing_.tools ? "(calls | answer)" : "answer"));
    return rules_;
  }

 private:
  void add_calls() {
    std::string names;
    for (size_t i = 0; i < parsing_.tool_specs.size(); ++i) {
      names.append(names.empty() ? "" : " | ").append(fmt::format("call_{}", i));
      add_call(parsing_.tool_specs[i], i);
    }
    rule("call", names);
    rule("calls", calls());
  }

  void rule(const std::string& name, const std::string& body) {
    rules_ += fmt::format("{}: {}\n", name, body);
  }

  // A marker as the model writes it: a token of its own, or text.
  std::string marker(const std::string& text) const {
    const auto token = format_.marker_tokens.find(text);
    if (token == format_.marker_tokens.end()) return literal(text);
    return fmt::format("<[{}]> ", token->second.value);
  }
  std::string begin() const {
    return syntax_.begins.empty() ? std::string() : marker(syntax_.begins.front());
  }

  std::string reasoning() {
    const ReasoningSyntax* syntax = format_.reasoning_syntax();
    if (!parsing_.reasoning || syntax == nullptr) return {};
    if (format_.marker_tokens.contains(syntax->end)) {
      rule("thought", "/(?s:.*)/ " + marker(syntax->end) + "/[ \\n]{0,4}/");
    } else {
      rules_ += fmt::format("thinking[suffix={}]: /(?s:.*)/\n", dump_json(Json(syntax->end)));
      rule("thought", "thinking /[ \\n]{0,4}/");
    }
    if (parsing_.starts_in_reasoning) return "thought ";
    return fmt::format("({}thought)? ", marker(syntax->begin));
  }

  // All calls, with what stands around and between them.
  std::string calls() const {
    const bool one = parsing_.one_call;
    const std::string fence =
        syntax_.fence.empty() ? "" : literal("\n") + marker(syntax_.fence) + literal("\n");
    const std::string fence_end = syntax_.fence_end.empty() ? "" : literal("\n") + marker(syntax_.fence_end);
    switch (syntax_.style) {
      case CallStyle::kPythonic:
      case CallStyle::kNameKeyed:
        return begin() + literal("[") + list("call", ", ", one) + literal("]") + marker(syntax_.end);
      case CallStyle::kNamedJson:
        return marker(syntax_.section_begin) + list("call", "", one) + marker(syntax_.section_end);
      case CallStyle::kXmlParameters:
      case CallStyle::kArgumentKeys:
        return list("call", "\n", one);
      case CallStyle::kJson:
        break;
    }
    if (syntax_.list) {
      return begin() + fence + literal("[") + list("call", ", ", one) + literal("]") + fence_end +
             marker(syntax_.end);
    }
    if (syntax_.begins.empty()) return "call";
    const std::string around = begin() + literal("\n") + "call " + literal("\n") + marker(syntax_.end);
    return one ? around : around + "(" + literal("\n") + around + ")" + kMoreCalls;
  }

  static std::string list(const std::string& item, std::string_view separator, bool one) {
    return one ? item + " " : fmt::format("{} ({}{}){} ", item, literal(separator), item, kMoreCalls);
  }

  void add_call(const ToolSpec& tool, size_t index) {
    auto parsed = parse_json(tool.parameters_json);
    const Json schema = parsed ? std::move(*parsed) : Json::object();
    const std::string name = fmt::format("call_{}", index), arguments = fmt::format("args_{}", index);
    switch (syntax_.style) {
      case CallStyle::kXmlParameters:
        rule(name, begin() + literal("\n<function=" + tool.name + ">\n") + parameters(schema, arguments) +
                       literal("</function>\n") + marker(syntax_.end));
        return;
      case CallStyle::kArgumentKeys:
        rule(name, begin() + literal(tool.name + "\n") + parameters(schema, arguments) + marker(syntax_.end));
        return;
      case CallStyle::kPythonic:
        rule(name, literal(tool.name + "(") + keyword_arguments(schema, arguments) + literal(")"));
        return;
      case CallStyle::kNamedJson:
        rule(name, named_head(tool.name) + arguments + " " + named_tail());
        break;
      case CallStyle::kNameKeyed:
        rule(name, literal("{" + dump_json(Json(tool.name)) + ": ") + arguments + " " + literal("}"));
        break;
      case CallStyle::kJson:
        rule(name, literal(fmt::format("{{\"{}\": {}, \"{}\": ", syntax_.name_key, dump_json(Json(tool.name)),
                                       syntax_.arguments_key)) +
                       arguments + " " + literal("}"));
        break;
    }
    rule(arguments, json(object_schema(schema)));
  }

  std::string named_head(const std::string& name) const {
    std::string head = begin();
    if (!syntax_.name_begin.empty()) head += literal("function") + marker(syntax_.name_begin);
    if (syntax_.name == "kimi_k2") {
      head += literal("functions." + name + ":") + "/[0-9]{1,3}/ ";
    } else {
      head += literal(name);
    }
    head += marker(syntax_.name_end);
    return syntax_.fence.empty() ? head : head + marker(syntax_.fence) + literal("\n");
  }
  std::string named_tail() const {
    const std::string end = marker(syntax_.end);
    return syntax_.fence_end.empty() ? end : literal("\n") + marker(syntax_.fence_end) + end;
  }

  static Json object_schema(Json schema) {
    if (!schema.is_object() || schema.empty()) schema = Json{{"properties", Json::object()}};
    if (!schema.contains("type")) schema["type"] = "object";
    return schema;
  }

  static std::string json(Json schema) {
    if (!schema.is_object()) schema = Json::object();
    schema["x-guidance"] = {{"whitespace_pattern", kJsonSpace}, {"lenient", true}};
    return "%json " + dump_json(schema);
  }

  struct Property {
    std::string name;
    Json schema;
    bool required = false;
  };
  // With the definitions that their references may need.
  static std::vector<Property> properties(const Json& schema) {
    std::vector<Property> result;
    const auto found = schema.is_object() ? schema.find("properties") : schema.end();
    if (!schema.is_object() || found == schema.end() || !found->is_object()) return result;
    const Json required = schema.value("required", Json::array());
    for (const auto& item : found->items()) {
      Property property{item.key(), item.value().is_object() ? item.value() : Json::object()};
      property.required = std::find(required.begin(), required.end(), item.key()) != required.end();
      for (const char* definitions : {"$defs", "definitions"}) {
        if (schema.contains(definitions)) property.schema[definitions] = schema[definitions];
      }
      result.push_back(std::move(property));
    }
    return result;
  }

  // Between tags, in the order of the schema.
  std::string parameters(const Json& schema, const std::string& prefix) {
    std::string body;
    int index = 0;
    for (const Property& property : properties(schema)) {
      const std::string name = fmt::format("{}_{}", prefix, index++);
      add_tagged(property, name);
      body += name + (property.required ? " " : "? ");
    }
    return body;
  }

  void add_tagged(const Property& property, const std::string& name) {
    const bool is_xml = syntax_.style == CallStyle::kXmlParameters;
    const std::string head = is_xml ? literal("<parameter=" + property.name + ">\n")
                                    : marker("<arg_key>") + literal(property.name) + marker("</arg_key>") +
                                          literal("\n") + marker("<arg_value>");
    const std::string end = is_xml ? "\n</parameter>\n" : "</arg_value>";
    const std::set<std::string> types = argument_types(property.schema, property.schema);
    const bool is_text = types.empty() || (types.size() == 1 && types.contains("string"));
    const bool is_free = is_text && !property.schema.contains("enum") && !property.schema.contains("const");
    if (!is_free) {
      rule(name, head + (is_text ? words(property.schema) : name + "_json ") +
                     (is_xml ? literal(end) : marker(end) + literal("\n")));
      if (!is_text) rule(name + "_json", json(property.schema));
      return;
    }
    if (!is_xml && format_.marker_tokens.contains(end)) {
      rule(name, head + "/(?s:.*)/ " + marker(end) + literal("\n"));
      return;
    }
    rules_ += fmt::format("{}_text[suffix={}]: /(?s:.*)/\n", name, dump_json(Json(end)));
    rule(name, head + name + "_text " + (is_xml ? "" : literal("\n")));
  }

  // The strings of an enum, as they are.
  static std::string words(const Json& schema) {
    Json values = schema.contains("enum") ? schema["enum"] : Json::array({schema["const"]});
    std::string body;
    for (const Json& value : values) {
      if (!value.is_string() || value.get_ref<const std::string&>().empty()) continue;
      body += (body.empty() ? "(" : "| ") + dump_json(value) + " ";
    }
    return body.empty() ? "/[^<]*/ " : body + ") ";
  }

  // a=1, b=2: rules say what may come first and what next, as a comma stands in between only.
  std::string keyword_arguments(const Json& schema, const std::string& prefix) {
    const std::vector<Property> all = properties(schema);
    for (size_t i = 0; i <= all.size(); ++i) {
      const std::string first = fmt::format("{}_first_{}", prefix, i),
                        next = fmt::format("{}_next_{}", prefix, i);
      if (i == all.size()) {
        rule(first, "\"\"");
        rule(next, "\"\"");
        break;
      }
      const std::string value = fmt::format("{}_{}", prefix, i);
      rule(value + "_json", json(all[i].schema));
      rule(value, literal(all[i].name + "=") + value + "_json");
      const std::string after = fmt::format("{}_next_{}", prefix, i + 1);
      rule(first, fmt::format("{} {}", value, after) +
                      (all[i].required ? "" : fmt::format(" | {}_first_{}", prefix, i + 1)));
      rule(next, fmt::format("\", \" {} {}", value, after) + (all[i].required ? "" : " | " + after));
    }
    return prefix + "_first_0 ";
  }

  const OutputParsing& parsing_;
  const OutputFormat& format_;
  const ToolSyntax& syntax_;
  std::string rules_;
};

}  // namespace

std::string tool_grammar(const OutputParsing& parsing) {
  return Grammar(parsing).forced_calls();
}

std::string answer_grammar(const OutputParsing& parsing, const std::string& schema_json) {
  return Grammar(parsing).answer(schema_json);
}

}  // namespace pagoda::openai
