// Bodies of /v1/embeddings, /rerank and /score.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/openai/request.h"
#include "base/result.h"

namespace pagoda::openai {

inline constexpr size_t kMaxEmbeddingInputs = 2048;  // of one request, as OpenAI has it

// What all three have.
struct EmbeddingFields {
  std::string model;
  int64_t truncate_prompt_tokens = 0;  // 0 = off, -1 = what the model takes
  std::vector<std::string> unknown_fields;
};

struct EmbeddingRequest {
  EmbeddingFields common;
  std::vector<PromptInput> inputs;
  bool base64 = false;
  bool add_special_tokens = true;
  std::optional<int64_t> dimensions;
};
Result<EmbeddingRequest> parse_embedding_request(std::string_view body, const ParseOptions& options);

struct RerankRequest {
  EmbeddingFields common;
  std::string query;
  std::vector<std::string> documents;
  size_t top_n = 0;  // at most all
  bool return_documents = true;
};
Result<RerankRequest> parse_rerank_request(std::string_view body, const ParseOptions& options);

// One text against many, or as many pairs as both have.
struct ScoreRequest {
  EmbeddingFields common;
  std::vector<std::string> first, second;
};
Result<ScoreRequest> parse_score_request(std::string_view body, const ParseOptions& options);

}  // namespace pagoda::openai
