#include "api/openai/response_json.h"

#include <utility>

namespace pagoda::openai {
namespace {

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

Json card_json(const ModelCard& card) {
  return {{"id", card.id},
          {"object", "model"},
          {"created", card.created},
          {"owned_by", "pagoda"},
          {"root", card.id},
          {"parent", nullptr},
          {"max_model_len", card.max_model_len},
          {"quantization", text_or_null(card.quantization)}};
}

}  // namespace

Json usage_json(const UsageCounts& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

Json finish_json(Finish finish) {
  switch (finish) {
    case Finish::kStop:
      return "stop";
    case Finish::kLength:
      return "length";
    case Finish::kNone:
      break;
  }
  return nullptr;
}

Json stop_reason_json(const ChoiceDelta& delta) {
  if (const auto* text = std::get_if<std::string>(&delta.stop_reason)) return *text;
  if (const auto* id = std::get_if<TokenId>(&delta.stop_reason)) return id->value;
  return nullptr;
}

Json ids_json(const std::vector<TokenId>& ids) {
  Json list = Json::array();
  for (const TokenId id : ids) list.push_back(id.value);
  return list;
}

Json head_json(const ResponseOptions& options, const char* object) {
  return {{"id", options.id}, {"object", object}, {"created", options.created}, {"model", options.model}};
}

void set_chunk_usage(const ResponseOptions& options, const UsageCounts& usage, Json* chunk) {
  if (options.continuous_usage_stats) {
    (*chunk)["usage"] = usage_json(usage);
  } else if (options.include_usage) {
    (*chunk)["usage"] = nullptr;
  }
}

std::string usage_chunk_json(const ResponseOptions& options, const char* object, const UsageCounts& usage) {
  Json chunk = head_json(options, object);
  chunk["choices"] = Json::array();
  chunk["usage"] = usage_json(usage);
  return dump_json(chunk);
}

std::vector<StreamEvent> ChunkBuilder::events(ChoiceDelta delta, const UsageCounts& usage) {
  std::vector<StreamEvent> result;
  for (std::string& chunk : chunks(std::move(delta), usage)) result.push_back({"", std::move(chunk)});
  return result;
}

std::vector<StreamEvent> ChunkBuilder::last_events(const UsageCounts& usage) {
  std::vector<StreamEvent> result;
  if (include_usage_) result.push_back({"", usage_chunk(usage)});
  result.push_back({"", "[DONE]"});
  return result;
}

std::vector<StreamEvent> ChunkBuilder::error_events(const ErrorBody& error) {
  return {{"", error_json(error)}};
}

std::string error_json(const ErrorBody& error) {
  return dump_json({{"error",
                     {{"message", error.message},
                      {"type", error.type},
                      {"param", text_or_null(error.param)},
                      {"code", text_or_null(error.code)}}}});
}

std::string model_json(const ModelCard& card) {
  return dump_json(card_json(card));
}

std::string model_list_json(const std::vector<ModelCard>& cards) {
  Json data = Json::array();
  for (const ModelCard& card : cards) data.push_back(card_json(card));
  return dump_json({{"object", "list"}, {"data", std::move(data)}});
}

std::string tokenize_json(const TokenizeAnswer& answer) {
  return dump_json({{"count", answer.tokens.size()},
                    {"max_model_len", answer.max_model_len},
                    {"tokens", ids_json(answer.tokens)},
                    {"token_strs", answer.token_strs ? Json(*answer.token_strs) : Json(nullptr)}});
}

std::string prompt_json(const std::string& prompt) {
  return dump_json({{"prompt", prompt}});
}
std::string version_json(const std::string& version) {
  return dump_json({{"version", version}});
}
std::string status_json(const std::string& status) {
  return dump_json({{"status", status}});
}

}  // namespace pagoda::openai
