// The description of the API agrees with the parsers, with the document that is handed to clients, with the
// names of the wire contract, and with docs/API.md.
#include "api/openai/contract.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <set>

#include "api/openai/batch_objects.h"
#include "api/openai/embedding_request.h"
#include "api/openai/field_reader.h"
#include "api/openai/generate_request.h"
#include "api/openai/infill_request.h"
#include "api/openai/messages_request.h"
#include "api/openai/responses_request.h"
#include "api/openai/tests/request_fixture.h"

namespace pagoda::openai {
namespace {

using Names = std::set<std::string>;

std::string source_file(const std::string& path) {
  return std::string(PAGODA_SOURCE_DIR) + "/" + path;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

const ContractRoute* find_route(const std::string& path) {
  for (const ContractRoute& route : contract_routes()) {
    if (path == route.path) return &route;
  }
  return nullptr;
}

Names table_names(const std::string& path) {
  Names names;
  const ContractRoute* route = find_route(path);
  if (route == nullptr) return names;
  for (const FieldGroup* group : route->groups) {
    for (const ContractField& field : group->fields) {
      EXPECT_TRUE(names.insert(field.name).second) << path << " has " << field.name << " twice";
    }
  }
  return names;
}

using Parse = std::function<void(std::string_view, const ParseOptions&)>;
struct ParsedRoute {
  std::string path;
  Parse parse;
  std::vector<std::string> bodies;  // that make the parser look into the objects inside
};

template <class F>
Parse ignoring(F parse) {
  return [parse](std::string_view body, const ParseOptions& options) { (void)parse(body, options); };
}

const char* const kTurn = R"("messages":[{"role":"user","content":"hi"}])";

std::vector<ParsedRoute> parsed_routes() {
  const std::string turn = kTurn;
  const std::string options = R"("stream":true,"stream_options":{"include_usage":true})";
  const std::string messages_full =
      "{" + turn +
      R"(,"max_tokens":2000,"system":"s","tool_choice":{"type":"tool","name":"f"},)"
      R"("thinking":{"type":"enabled","budget_tokens":1024},"metadata":{"user_id":"u"},)"
      R"("output_config":{"effort":"low","format":{"type":"json_schema","schema":{}}},)"
      R"("stop_sequences":["a"]})";
  return {
      {"/v1/completions", ignoring(parse_completion_request), {"{}", R"({"prompt":"p",)" + options + "}"}},
      {"/v1/chat/completions", ignoring(parse_chat_request), {"{}", "{" + turn + "," + options + "}"}},
      {"/v1/responses",
       ignoring(parse_responses_request),
       {"{}", R"({"input":"hi","text":{"format":{"type":"text"}},"reasoning":{"effort":"low"},)"
              R"("tool_choice":{"type":"function","name":"f"},)" +
                  options + "}"}},
      {"/v1/messages", ignoring(parse_messages_request), {"{}", messages_full}},
      {"/v1/messages/count_tokens", ignoring(parse_count_tokens_request), {"{}", messages_full}},
      {"/infill", ignoring(parse_infill_request), {"{}", "{" + options + "}"}},
      {"/generate", ignoring(parse_generate_request), {"{}", "{" + options + "}"}},
      {"/v1/embeddings", ignoring(parse_embedding_request), {"{}"}},
      {"/embeddings", ignoring(parse_embedding_request), {"{}"}},
      {"/rerank", ignoring(parse_rerank_request), {"{}"}},
      {"/v1/rerank", ignoring(parse_rerank_request), {"{}"}},
      {"/v2/rerank", ignoring(parse_rerank_request), {"{}"}},
      {"/score", ignoring(parse_score_request), {"{}"}},
      {"/v1/score", ignoring(parse_score_request), {"{}"}},
      {"/tokenize", ignoring(parse_tokenize_request), {"{}", R"({"prompt":"p"})", "{" + turn + "}"}},
      {"/detokenize", ignoring(parse_detokenize_request), {"{}", R"({"tokens":[1]})"}},
      {"/v1/files",
       [](std::string_view body, const ParseOptions& parse) {
         std::vector<std::pair<std::string, std::string>> form;
         const Json fields = Json::parse(body);
         for (const auto& item : fields.items()) form.emplace_back(item.key(), item.value());
         (void)parse_create_file_request(form, parse.strict);
       },
       {"{}", R"({"file":"a.jsonl","purpose":"batch"})"}},
      {"/v1/batches",
       [](std::string_view body, const ParseOptions& parse) {
         (void)parse_create_batch_request(body, parse.strict);
       },
       {"{}"}},
      {"/apply-template", ignoring(parse_apply_template_request), {"{}", "{" + turn + "}"}},
  };
}

// Every body has its own recorder, as each has its own objects.
Names asked_for(const ParsedRoute& route) {
  Names names;
  for (const std::string& body : route.bodies) {
    FieldRecorder recorder;
    route.parse(body, test_options());
    for (const std::string& name : recorder.names()) {
      if (name.find('[') == std::string::npos) names.insert(name);  // fields of a list's items
    }
  }
  return names;
}

TEST(Contract, TheTableHasEveryFieldThatAParserAsksFor) {
  for (const ParsedRoute& route : parsed_routes()) {
    const Names table = table_names(route.path);
    for (const std::string& name : asked_for(route)) {
      EXPECT_TRUE(table.contains(name)) << route.path << " reads " << name << ", contract.cc lacks it";
    }
  }
}

// Fields inside objects may be read by other means than a FieldReader.
TEST(Contract, EveryFieldOfTheTableIsRead) {
  for (const ParsedRoute& route : parsed_routes()) {
    const Names asked = asked_for(route);
    for (const std::string& name : table_names(route.path)) {
      if (name.find('.') != std::string::npos) continue;
      EXPECT_TRUE(asked.contains(name)) << "contract.cc has " << name << " for " << route.path;
    }
  }
}

TEST(Contract, EveryRouteWithABodyIsHeldAgainstItsParser) {
  Names parsed;
  for (const ParsedRoute& route : parsed_routes()) parsed.insert(route.path);
  for (const ContractRoute& route : contract_routes()) {
    if (route.groups.empty()) continue;
    EXPECT_TRUE(parsed.contains(route.path)) << route.path;
  }
}

TEST(Contract, TheRecorderLeavesOutBodiesThatAParserMakes) {
  FieldRecorder recorder;
  (void)parse_responses_request(R"({"input":"hi"})", test_options());
  EXPECT_TRUE(recorder.names().contains("input"));
  EXPECT_FALSE(recorder.names().contains("messages"));
}

void expect_known_references(const Json& value, const Json& schemas) {
  if (!value.is_structured()) return;
  for (const auto& item : value.items()) {
    if (item.key() == "$ref" && item.value().is_string()) {
      const auto name = item.value().get<std::string>();
      EXPECT_TRUE(schemas.contains(name.substr(name.rfind('/') + 1))) << name;
    }
    expect_known_references(item.value(), schemas);
  }
}

TEST(Contract, TheDocumentIsCompleteAndItsReferencesExist) {
  const Json document = Json::parse(openapi_document("1.2.3"));
  EXPECT_EQ(document["openapi"], "3.1.0");
  EXPECT_EQ(document["info"]["version"], "1.2.3");
  size_t operations = 0;
  for (const Json& path : document["paths"]) operations += path.size();
  EXPECT_EQ(operations, contract_routes().size());
  expect_known_references(document["paths"], document["components"]["schemas"]);
  expect_known_references(document["components"], document["components"]["schemas"]);
  const Json& body =
      document["paths"]["/v1/completions"]["post"]["requestBody"]["content"]["application/json"];
  EXPECT_EQ(body["schema"]["required"], Json::array({"prompt"}));
  EXPECT_EQ(body["schema"]["properties"]["n"]["type"], Json::array({"integer", "null"}));
  EXPECT_TRUE(body["schema"]["properties"]["stream_options"]["properties"].contains("include_usage"));
  const Json& files = document["paths"]["/v1/files"];
  EXPECT_TRUE(files["post"]["requestBody"]["content"].contains("multipart/form-data"));
  EXPECT_EQ(files["get"]["parameters"].size(), 4u);
  EXPECT_TRUE(document["paths"]["/v1/files/{id}"].contains("delete"));
}

// tests/data/api_names.txt has the names of the wire contract: each is described, or listed as missing.
TEST(Contract, EveryNameOfTheWireContractIsDescribedOrListedAsMissing) {
  Names described, missing;
  for (const ContractRoute& route : contract_routes()) {
    described.insert(route.path);
    for (const std::string& name : table_names(route.path)) described.insert(name);
  }
  for (const MissingPart& part : contract_missing()) missing.insert(part.name);
  std::ifstream names(source_file("tests/data/api_names.txt"));
  int count = 0;
  for (std::string name; std::getline(names, name); ++count) {
    EXPECT_NE(described.contains(name), missing.contains(name)) << name;
  }
  EXPECT_GT(count, 80);
}

// PAGODA_UPDATE_DOCS=1 writes the file (tools/update_api_docs).
TEST(Contract, DocsAreFresh) {
  const std::string path = source_file("docs/API.md");
  const std::string marker = "<!-- Generated from src/api/openai/contract.cc by tools/update_api_docs. -->\n";
  const std::string found = read_file(path);
  const size_t at = found.find(marker);
  ASSERT_NE(at, std::string::npos) << path << " lacks the line " << marker;
  const std::string fresh = found.substr(0, at) + marker + "\n" + contract_markdown();
  if (std::getenv("PAGODA_UPDATE_DOCS") != nullptr) std::ofstream(path, std::ios::binary) << fresh;
  EXPECT_EQ(read_file(path), fresh) << "docs/API.md is stale: run tools/update_api_docs";
}

}  // namespace
}  // namespace pagoda::openai
