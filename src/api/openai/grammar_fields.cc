#include "api/openai/grammar_fields.h"

#include <fmt/format.h>

#include <utility>

namespace pagoda::openai {
namespace {

using Kind = OutputGrammar::Kind;

// Keeps the first grammar; a second one is the request's error.
class GrammarCollector {
 public:
  GrammarCollector(FieldReader& fields, std::optional<OutputGrammar>* grammar)
      : fields_(fields), grammar_(grammar) {}

  void add(Kind kind, std::string text, const std::string& param) {
    if (*grammar_) {
      return fail(param, fmt::format("{} and {} exclude each other.", (*grammar_)->param, param));
    }
    *grammar_ = OutputGrammar{kind, std::move(text), param};
  }
  void fail(const std::string& param, std::string message) {
    fields_.fail(make_error(ErrorKind::kInvalidArgument, std::move(message), param));
  }

  void add_schema(const Json& json, const std::string& param) {
    if (json.is_object() || json.is_boolean()) return add(Kind::kJsonSchema, dump_json(json), param);
    if (json.is_string()) return add(Kind::kJsonSchema, json.get<std::string>(), param);
    fail(param, fmt::format("{} must be a JSON schema, got {}.", param, describe(json)));
  }
  void add_text(Kind kind, const Json& json, const std::string& param) {
    if (!json.is_string() || json.get_ref<const std::string&>().empty()) {
      return fail(param, fmt::format("{} must be a string with text in it, got {}.", param, describe(json)));
    }
    add(kind, json.get<std::string>(), param);
  }
  void add_choice(const Json& json, const std::string& param) {
    bool right = json.is_array() && !json.empty();
    for (const Json& item : json) right = right && item.is_string();
    if (!right) {
      return fail(param,
                  fmt::format("{} must be a list of at least one string, got {}.", param, describe(json)));
    }
    add(Kind::kChoice, dump_json(json), param);
  }
  void add_grammar(const Json& json, const std::string& param) {
    const bool is_gbnf =
        json.is_string() && json.get_ref<const std::string&>().find("::=") != std::string::npos;
    add_text(is_gbnf ? Kind::kGbnf : Kind::kLark, json, param);
  }

 private:
  FieldReader& fields_;
  std::optional<OutputGrammar>* const grammar_;
};

const Json* member(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

void read_json_schema_format(const Json& format, GrammarCollector& grammars) {
  const std::string param = "response_format.json_schema.schema";
  const Json* wrapper = member(format, "json_schema");
  const Json* schema = wrapper != nullptr && wrapper->is_object() ? member(*wrapper, "schema") : nullptr;
  if (schema == nullptr || !(schema->is_object() || schema->is_boolean())) {
    return grammars.fail("response_format", param + " must be a JSON schema.");
  }
  grammars.add_schema(*schema, param);
}

void read_response_format(FieldReader& fields, GrammarCollector& grammars) {
  const Json* format = fields.value("response_format");
  if (format == nullptr) return;
  const Json* type = format->is_object() ? member(*format, "type") : nullptr;
  if (type == nullptr || !type->is_string()) {
    return grammars.fail("response_format", "response_format must be an object with a string in type.");
  }
  const auto& name = type->get_ref<const std::string&>();
  if (name == "text") return;
  if (name == "json_schema") return read_json_schema_format(*format, grammars);
  if (name != "json_object") {
    return grammars.fail("response_format",
                         fmt::format("response_format.type must be text, json_object or json_schema, got {}.",
                                     describe(*type)));
  }
  const Json* schema = member(*format, "schema");
  if (schema == nullptr) return grammars.add(Kind::kJsonObject, {}, "response_format");
  if (!schema->is_object()) {
    return grammars.fail("response_format",
                         fmt::format("response_format.schema must be an object, got {}.", describe(*schema)));
  }
  grammars.add_schema(*schema, "response_format.schema");
}

void read_structured_outputs(FieldReader& fields, GrammarCollector& grammars) {
  const Json* wanted = fields.value("structured_outputs");
  if (wanted == nullptr) return;
  if (!wanted->is_object()) {
    return grammars.fail("structured_outputs",
                         fmt::format("structured_outputs must be an object, got {}.", describe(*wanted)));
  }
  const std::string prefix = "structured_outputs.";
  if (const Json* json = member(*wanted, "json")) grammars.add_schema(*json, prefix + "json");
  if (const Json* json = member(*wanted, "regex")) grammars.add_text(Kind::kRegex, *json, prefix + "regex");
  if (const Json* json = member(*wanted, "choice")) grammars.add_choice(*json, prefix + "choice");
  if (const Json* json = member(*wanted, "grammar")) grammars.add_grammar(*json, prefix + "grammar");
  const Json* any = member(*wanted, "json_object");
  if (any == nullptr || *any == Json(false)) return;
  if (*any == Json(true)) return grammars.add(Kind::kJsonObject, {}, prefix + "json_object");
  grammars.fail(prefix + "json_object",
                fmt::format("{}json_object must be true or false, got {}.", prefix, describe(*any)));
}

}  // namespace

void read_grammar(FieldReader& fields, std::optional<OutputGrammar>* grammar) {
  GrammarCollector grammars(fields, grammar);
  read_response_format(fields, grammars);
  read_structured_outputs(fields, grammars);
  if (const Json* json = fields.value("guided_json")) grammars.add_schema(*json, "guided_json");
  if (const Json* json = fields.value("guided_regex")) grammars.add_text(Kind::kRegex, *json, "guided_regex");
  if (const Json* json = fields.value("guided_choice")) grammars.add_choice(*json, "guided_choice");
  if (const Json* json = fields.value("guided_grammar")) grammars.add_grammar(*json, "guided_grammar");
}

}  // namespace pagoda::openai
