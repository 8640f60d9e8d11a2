// Answers of /v1/embeddings, /rerank and /score.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pagoda::openai {

struct EmbeddingHead {
  std::string id;
  int64_t created = 0;
  std::string model;
  int64_t total_tokens = 0;
};

// Numbers are printed so that reading them as a double gives the float, as the base64 form (little-endian)
// does.
std::string embedding_json(const EmbeddingHead& head, const std::vector<std::vector<float>>& vectors,
                           bool base64);

std::string base64_floats(const std::vector<float>& values);

struct RankedDocument {
  size_t index = 0;
  double score = 0;
  const std::string* text = nullptr;  // null: not wanted
};
std::string rerank_json(const EmbeddingHead& head, const std::vector<RankedDocument>& results);
std::string score_json(const EmbeddingHead& head, const std::vector<double>& scores);

}  // namespace pagoda::openai
