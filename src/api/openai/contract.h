// One description of every route and of the fields of its body, from which the OpenAPI document and the
// tables of docs/API.md are made. The tests hold it against what the parsers ask for.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "api/openai/json_text.h"

namespace pagoda::openai {

// A field of a request. "a.b" is the field b of the object a, which has a line of its own before.
struct ContractField {
  const char* name;
  const char* schema;    // JSON Schema of a value; null stands for "absent" everywhere
  const char* fallback;  // what an absent field means, for people; "" where nothing happens
  const char* meaning;
};

struct FieldGroup {
  const char* title;
  std::span<const ContractField> fields;
};

enum class AnswerKind : uint8_t { kJson, kJsonOrStream, kText, kBytes };

struct ContractRoute {
  const char* method;
  const char* path;
  const char* summary;
  std::span<const FieldGroup* const> groups;  // of the body; may be none
  std::span<const char* const> required;
  AnswerKind answer_kind;
  const char* answer;             // a name in contract_schemas()
  const char* error;              // likewise
  std::span<const int> statuses;  // beside 200
  std::span<const FieldGroup* const> query = {};
  const char* body_type = "application/json";
};

// A route or field of the wire contract that this version lacks.
struct MissingPart {
  const char* name;
  const char* what;
};

std::span<const ContractRoute> contract_routes();
std::span<const FieldGroup* const> contract_groups();
std::span<const MissingPart> contract_missing();

// The schemas of answers and errors, by name.
struct ContractSchema {
  const char* name;
  const char* schema;
};
std::span<const ContractSchema> contract_schemas();

// GET /openapi.json.
std::string openapi_document(std::string_view version);
// The tables of docs/API.md.
std::string contract_markdown();

}  // namespace pagoda::openai
