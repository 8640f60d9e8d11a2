#include "api/openai/logprobs_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace pagoda::openai {
namespace {

double finite(double logprob) {
  if (!std::isfinite(logprob) || logprob < kLowestLogprob) return kLowestLogprob;
  return logprob;
}

Json byte_list(const std::string& bytes) {
  Json list = Json::array();
  for (const char c : bytes) list.push_back(static_cast<unsigned char>(c));
  return list;
}

Json chat_entry(const TokenLogprob& token) {
  return {{"token", token_key(token.bytes)},
          {"logprob", finite(token.logprob)},
          {"bytes", byte_list(token.bytes)}};
}

// The alternatives as a dictionary; the sampled token is added when it is not among them. Different tokens
// with the same text (a special token and its spelling) keep apart by their id.
Json top_dictionary(const ScoredToken& scored) {
  Json dictionary = Json::object();
  bool has_sampled = false;
  const auto add = [&](const TokenLogprob& token) {
    const std::string key = token_key(token.bytes);
    dictionary[dictionary.contains(key) ? fmt::format("token_id:{}", token.id.value) : key] =
        finite(token.logprob);
    has_sampled = has_sampled || token.id == scored.token.id;
  };
  for (const TokenLogprob& token : scored.top) add(token);
  if (!has_sampled) add(scored.token);
  return dictionary;
}

}  // namespace

std::string token_key(const std::string& bytes) {
  if (find_invalid_utf8(bytes) == std::string_view::npos) return bytes;
  std::string key = "bytes:";
  for (const char c : bytes) key += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return key;
}

Json chat_logprobs(const std::vector<ScoredToken>& scores) {
  Json content = Json::array();
  for (const ScoredToken& scored : scores) {
    Json entry = chat_entry(scored.token);
    Json top = Json::array();
    for (const TokenLogprob& token : scored.top) top.push_back(chat_entry(token));
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  return content;
}

void CompletionLogprobs::add_token(const TokenLogprob& token) {
  const auto first = static_cast<unsigned char>(token.bytes.empty() ? 0 : token.bytes.front());
  const bool inside = missing_ > 0 && first >= next_min_ && first <= next_max_;
  text_offset_.push_back(inside ? code_points_ - 1 : code_points_);
  tokens_.push_back(token_key(token.bytes));
  for (const char c : token.bytes) {
    if (hidden_ > 0) {
      --hidden_;
    } else {
      count_byte(static_cast<unsigned char>(c));
    }
  }
}

// As the text is made: a sequence that breaks off is one U+FFFD, a byte that begins none is another.
void CompletionLogprobs::count_byte(unsigned char byte) {
  const bool continues = missing_ > 0 && byte >= next_min_ && byte <= next_max_;
  next_min_ = 0x80;
  next_max_ = 0xBF;
  if (continues) {
    --missing_;
    return;
  }
  ++code_points_;
  missing_ = byte >= 0xC2 && byte <= 0xDF   ? 1
             : byte >= 0xE0 && byte <= 0xEF ? 2
             : byte >= 0xF0 && byte <= 0xF4 ? 3
                                            : 0;
  // Overlong forms, surrogates and numbers above U+10FFFF.
  if (byte == 0xE0) next_min_ = 0xA0;
  if (byte == 0xED) next_max_ = 0x9F;
  if (byte == 0xF0) next_min_ = 0x90;
  if (byte == 0xF4) next_max_ = 0x8F;
}

void CompletionLogprobs::add(const std::vector<ScoredToken>& scores) {
  for (const ScoredToken& scored : scores) {
    add_token(scored.token);
    token_logprobs_.push_back(finite(scored.token.logprob));
    top_logprobs_.push_back(top_dictionary(scored));
  }
}

void CompletionLogprobs::add_prompt(const std::vector<ScoredToken>& scores, std::string_view text) {
  if (scores.empty()) return;
  std::string bytes;
  for (const ScoredToken& scored : scores) bytes += scored.token.bytes;
  if (bytes.ends_with(text)) hidden_ = bytes.size() - text.size();
  add_token(scores.front().token);
  token_logprobs_.push_back(nullptr);
  top_logprobs_.push_back(nullptr);
  add({scores.begin() + 1, scores.end()});
  missing_ = 0;  // the output's text is made by itself: it completes no character of the prompt
}

Json CompletionLogprobs::take() {
  Json result = {{"tokens", std::exchange(tokens_, Json::array())},
                 {"token_logprobs", std::exchange(token_logprobs_, Json::array())},
                 {"top_logprobs", std::exchange(top_logprobs_, Json::array())},
                 {"text_offset", std::exchange(text_offset_, Json::array())}};
  return result;
}

Json prompt_logprobs(const std::vector<ScoredToken>& scores) {
  Json list = Json::array();
  for (size_t i = 0; i < scores.size(); ++i) {
    if (i == 0) {
      list.push_back(nullptr);
      continue;
    }
    Json entry = Json::object();
    const auto add = [&](const TokenLogprob& token, int64_t rank) {
      entry[std::to_string(token.id.value)] = {
          {"logprob", finite(token.logprob)}, {"rank", rank}, {"decoded_token", token_key(token.bytes)}};
    };
    add(scores[i].token, scores[i].rank);
    for (size_t k = 0; k < scores[i].top.size(); ++k) add(scores[i].top[k], static_cast<int64_t>(k) + 1);
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace pagoda::openai
