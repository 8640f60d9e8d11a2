#include "api/openai/embedding_request.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/openai/common_fields.h"

namespace pagoda::openai {
namespace {

Error wrong(const char* name, std::string message) {
  return make_error(ErrorKind::kInvalidArgument, std::move(message), name);
}

void read_fields(FieldReader& fields, const ParseOptions& options, EmbeddingFields* common) {
  read_model(fields, options, &common->model);
  common->truncate_prompt_tokens = read_truncation(fields, INT32_MAX);
  fields.string("user");
  fields.string("request_id");
}

Result<PromptInput> read_ids(const Json& list, const ParseOptions& options) {
  if (list.empty()) return wrong("input", "input holds an empty list of token ids; at least one is needed.");
  return PromptInput(PAGODA_TRY(read_token_ids(list, "input", options.vocab_size)));
}

Result<void> check_count(const char* name, size_t count) {
  if (count == 0) return wrong(name, fmt::format("{} must not be an empty list.", name));
  if (count <= kMaxEmbeddingInputs) return {};
  return wrong(name, fmt::format("{} holds {} texts; at most {} are allowed in one request.", name, count,
                                 kMaxEmbeddingInputs));
}

// string, [string], [int] (one input) or [[int]].
Result<std::vector<PromptInput>> read_inputs(const Json* input, const ParseOptions& options) {
  if (input == nullptr) return wrong("input", "input is required.");
  std::vector<PromptInput> inputs;
  if (input->is_string()) {
    inputs.emplace_back(input->get<std::string>());
    return inputs;
  }
  if (!input->is_array()) {
    return wrong("input",
                 fmt::format("input must be a string, a list of strings, a list of token ids or a list "
                             "of such lists, got {}.",
                             describe(*input)));
  }
  if (input->empty()) return wrong("input", "input must not be an empty list.");
  const Json& first = input->front();
  if (!first.is_string() && !first.is_array()) {
    inputs.push_back(PAGODA_TRY(read_ids(*input, options)));
    return inputs;
  }
  PAGODA_TRY(check_count("input", input->size()));
  for (const Json& item : *input) {
    if (item.type() != first.type()) {
      return wrong("input", fmt::format("input mixes strings and token ids: got {}.", describe(item)));
    }
    if (item.is_string()) {
      inputs.emplace_back(item.get<std::string>());
    } else {
      inputs.push_back(PAGODA_TRY(read_ids(item, options)));
    }
  }
  return inputs;
}

// A text, or a document of Jina's and Cohere's shape: {"text": ...}.
Result<std::string> read_text(const char* name, const Json& item) {
  if (item.is_string()) return item.get<std::string>();
  if (item.is_object()) {
    const auto text = item.find("text");
    if (text != item.end() && text->is_string()) return text->get<std::string>();
  }
  return wrong(name,
               fmt::format("{} must hold strings or objects with a text, got {}.", name, describe(item)));
}

Result<std::vector<std::string>> read_texts(FieldReader& fields, const char* name, bool one_allowed) {
  const Json* value = fields.value(name);
  if (value == nullptr) return wrong(name, fmt::format("{} is required.", name));
  std::vector<std::string> texts;
  if (one_allowed && value->is_string()) {
    texts.push_back(value->get<std::string>());
    return texts;
  }
  if (!value->is_array())
    return wrong(name, fmt::format("{} must be a list of texts, got {}.", name, describe(*value)));
  PAGODA_TRY(check_count(name, value->size()));
  for (const Json& item : *value) texts.push_back(PAGODA_TRY(read_text(name, item)));
  return texts;
}

}  // namespace

Result<EmbeddingRequest> parse_embedding_request(std::string_view body, const ParseOptions& options) {
  const Json json = PAGODA_TRY(parse_object(body));
  FieldReader fields(json);
  EmbeddingRequest request;
  read_fields(fields, options, &request.common);
  if (const auto format = fields.string("encoding_format")) {
    request.base64 = *format == "base64";
    if (!request.base64 && *format != "float") {
      fields.fail("encoding_format", fmt::format("encoding_format must be \"float\" or \"base64\", got {}.",
                                                 describe(Json(*format))));
    }
  }
  request.dimensions = fields.integer("dimensions", 1, INT32_MAX);
  request.add_special_tokens = fields.boolean("add_special_tokens").value_or(true);
  auto inputs = read_inputs(fields.value("input"), options);
  if (inputs) {
    request.inputs = std::move(*inputs);
  } else {
    fields.fail(std::move(inputs).error());
  }
  PAGODA_TRY(finish_fields(fields, options.strict, &request.common.unknown_fields));
  return request;
}

Result<RerankRequest> parse_rerank_request(std::string_view body, const ParseOptions& options) {
  const Json json = PAGODA_TRY(parse_object(body));
  FieldReader fields(json);
  RerankRequest request;
  read_fields(fields, options, &request.common);
  const auto query = fields.string("query");
  if (!query) fields.fail("query", "query is required.");
  request.query = query.value_or("");
  auto documents = read_texts(fields, "documents", false);
  if (documents) {
    request.documents = std::move(*documents);
  } else {
    fields.fail(std::move(documents).error());
  }
  const int64_t top_n = fields.integer("top_n", 0, INT32_MAX).value_or(0);  // 0: all, as vLLM has it
  request.top_n =
      top_n == 0 ? request.documents.size() : std::min(static_cast<size_t>(top_n), request.documents.size());
  request.return_documents = fields.boolean("return_documents").value_or(true);
  PAGODA_TRY(finish_fields(fields, options.strict, &request.common.unknown_fields));
  return request;
}

Result<ScoreRequest> parse_score_request(std::string_view body, const ParseOptions& options) {
  const Json json = PAGODA_TRY(parse_object(body));
  FieldReader fields(json);
  ScoreRequest request;
  read_fields(fields, options, &request.common);
  for (const auto& [name, texts] :
       {std::pair("text_1", &request.first), std::pair("text_2", &request.second)}) {
    auto read = read_texts(fields, name, true);
    if (read) {
      *texts = std::move(*read);
    } else {
      fields.fail(std::move(read).error());
    }
  }
  PAGODA_TRY(finish_fields(fields, options.strict, &request.common.unknown_fields));
  if (request.first.size() != 1 && request.first.size() != request.second.size()) {
    return wrong("text_1", fmt::format("text_1 must hold one text or as many as text_2: got {} and {}.",
                                       request.first.size(), request.second.size()));
  }
  return request;
}

}  // namespace pagoda::openai
