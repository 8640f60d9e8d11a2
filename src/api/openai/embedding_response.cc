#include "api/openai/embedding_response.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <iterator>

#include "api/openai/json_text.h"

namespace pagoda::openai {
namespace {

Json head_json(const EmbeddingHead& head) {
  return {{"id", head.id}, {"object", "list"}, {"created", head.created}, {"model", head.model}};
}

Json usage(const EmbeddingHead& head) {
  return {{"prompt_tokens", head.total_tokens}, {"total_tokens", head.total_tokens}};
}

void append_numbers(const std::vector<float>& vector, std::string* out) {
  out->push_back('[');
  for (size_t i = 0; i < vector.size(); ++i) {
    if (i > 0) out->push_back(',');
    const auto value = static_cast<double>(vector[i]);
    // A vector that overflowed is no reason for an answer that isn't JSON.
    fmt::format_to(std::back_inserter(*out), "{}", std::isfinite(value) ? value : 0.0);
  }
  out->push_back(']');
}

}  // namespace

std::string base64_floats(const std::vector<float>& values) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((values.size() * 4 + 2) / 3 * 4);
  uint32_t bits = 0;
  int count = 0;  // bytes in `bits`
  const auto flush = [&] {
    for (int shift = 18; shift >= 0; shift -= 6) out.push_back(kDigits[bits >> shift & 63u]);
    bits = 0;
    count = 0;
  };
  for (const float value : values) {
    const auto word = std::bit_cast<uint32_t>(value);
    for (int byte = 0; byte < 4; ++byte) {
      bits = bits << 8 | (word >> 8 * byte & 255u);
      if (++count == 3) flush();
    }
  }
  if (count == 0) return out;
  const int missing = 3 - count;
  bits <<= 8 * missing;
  flush();
  for (int i = 0; i < missing; ++i)
    out[out.size() - static_cast<size_t>(missing) + static_cast<size_t>(i)] = '=';
  return out;
}

std::string embedding_json(const EmbeddingHead& head, const std::vector<std::vector<float>>& vectors,
                           bool base64) {
  std::string text = dump_json(head_json(head));
  text.pop_back();  // the brace: vectors are long, so they are written and not made a tree first
  text += ",\"data\":[";
  for (size_t i = 0; i < vectors.size(); ++i) {
    if (i > 0) text.push_back(',');
    text += fmt::format("{{\"index\":{},\"object\":\"embedding\",\"embedding\":", i);
    if (base64) {
      text.append("\"").append(base64_floats(vectors[i])).append("\"");
    } else {
      append_numbers(vectors[i], &text);
    }
    text.push_back('}');
  }
  return text + "],\"usage\":" + dump_json(usage(head)) + "}";
}

std::string rerank_json(const EmbeddingHead& head, const std::vector<RankedDocument>& results) {
  Json list = Json::array();
  for (const RankedDocument& result : results) {
    Json entry = {{"index", result.index}, {"relevance_score", result.score}};
    if (result.text != nullptr) entry["document"] = {{"text", *result.text}};
    list.push_back(std::move(entry));
  }
  return dump_json(
      {{"id", head.id}, {"model", head.model}, {"usage", usage(head)}, {"results", std::move(list)}});
}

std::string score_json(const EmbeddingHead& head, const std::vector<double>& scores) {
  Json data = Json::array();
  for (size_t i = 0; i < scores.size(); ++i) {
    data.push_back({{"index", i}, {"object", "score"}, {"score", scores[i]}});
  }
  Json answer = head_json(head);
  answer["data"] = std::move(data);
  answer["usage"] = usage(head);
  return dump_json(answer);
}

}  // namespace pagoda::openai
