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

void read_json_schema_format(FieldReader& format, GrammarCollector& grammars) {
  const std::string param = "response_format.json_schema.schema";
  const Json* wrapper = format.value("json_schema");
  if (wrapper == nullptr || !wrapper->is_object()) {
    return grammars.fail("response_format", param + " must be a JSON schema.");
  }
  FieldReader inner(*wrapper, "response_format.json_schema.");
  (void)inner.string("name");  // for the caller: the model sees the schema alone
  (void)inner.string("description");
  (void)inner.boolean("strict");  // a schema always holds
  const Json* schema = inner.value("schema");
  if (schema == nullptr || !(schema->is_object() || schema->is_boolean())) {
    return grammars.fail("response_format", param + " must be a JSON schema.");
  }
  grammars.add_schema(*schema, param);
  format.finish(inner);
}

void read_response_format(FieldReader& fields, GrammarCollector& grammars) {
  const Json* format = fields.value("response_format");
  if (format == nullptr) return;
  const auto wrong = [&](std::string message) { grammars.fail("response_format", std::move(message)); };
  if (!format->is_object()) return wrong("response_format must be an object with a string in type.");
  FieldReader inner(*format, "response_format.");
  const Json* type = inner.value("type");
  if (type == nullptr || !type->is_string()) {
    return wrong("response_format must be an object with a string in type.");
  }
  const auto& name = type->get_ref<const std::string&>();
  if (name == "json_schema") {
    read_json_schema_format(inner, grammars);
  } else if (name == "json_object") {
    const Json* schema = inner.value("schema");
    if (schema == nullptr) {
      grammars.add(Kind::kJsonObject, {}, "response_format");
    } else if (schema->is_object()) {
      grammars.add_schema(*schema, "response_format.schema");
    } else {
      wrong(fmt::format("response_format.schema must be an object, got {}.", describe(*schema)));
    }
  } else if (name != "text") {
    wrong(fmt::format("response_format.type must be text, json_object or json_schema, got {}.",
                      describe(*type)));
  }
  fields.finish(inner);
}

void read_structured_outputs(FieldReader& fields, GrammarCollector& grammars) {
  const Json* wanted = fields.object("structured_outputs");
  if (wanted == nullptr) return;
  const std::string prefix = "structured_outputs.";
  FieldReader inner(*wanted, prefix);
  if (const Json* json = inner.value("json")) grammars.add_schema(*json, prefix + "json");
  if (const Json* json = inner.value("regex")) grammars.add_text(Kind::kRegex, *json, prefix + "regex");
  if (const Json* json = inner.value("choice")) grammars.add_choice(*json, prefix + "choice");
  if (const Json* json = inner.value("grammar")) grammars.add_grammar(*json, prefix + "grammar");
  if (inner.boolean("json_object").value_or(false)) {
    grammars.add(Kind::kJsonObject, {}, prefix + "json_object");
  }
  // vLLM has it: an output without the constraint would look right and be wrong.
  if (inner.present("structural_tag")) {
    grammars.fail(prefix + "structural_tag",
                  prefix + "structural_tag is not supported; a Lark grammar can say the same.");
  }
  fields.finish(inner);
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
  // llama-server's names; its clients send an empty grammar for none.
  if (const Json* json = fields.value("json_schema")) grammars.add_schema(*json, "json_schema");
  if (const Json* json = fields.value("grammar"); json != nullptr && *json != "") {
    grammars.add_grammar(*json, "grammar");
  }
}

}  // namespace pagoda::openai
