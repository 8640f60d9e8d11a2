// The two shapes in which scores are sent: parallel arrays (completions) and a list of objects (chat).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/openai/json_text.h"
#include "api/openai/response.h"

namespace pagoda::openai {

// JSON has no infinity; clients know this value from vLLM.
inline constexpr double kLowestLogprob = -9999.0;

// A token as a JSON string: its text, or "bytes:\x9f" where the bytes alone are not UTF-8, so that two
// partial characters differ.
std::string token_key(const std::string& bytes);

// {"content": [...]} entries of chat: one object per token.
Json chat_logprobs(const std::vector<ScoredToken>& scores);

// Parallel arrays of completions, filled step by step; text_offset counts code points from the start of the
// choice's text, a token that starts inside a code point counts as at its start. top_logprobs always has the
// token itself, as vLLM has it.
class CompletionLogprobs {
 public:
  void add(const std::vector<ScoredToken>& scores);
  // An echoed prompt: its first token has no score, null in both arrays. Tokens in front of `text`, as the
  // BOS token that a text prompt gets, are at its start.
  void add_prompt(const std::vector<ScoredToken>& scores, std::string_view text);
  // What was added since the last call.
  Json take();

 private:
  void add_token(const TokenLogprob& token);
  void count_byte(unsigned char byte);

  size_t hidden_ = 0;        // bytes of tokens that still come in front of the text
  int64_t code_points_ = 0;  // that began in the tokens so far, U+FFFD for bytes that are no text included
  int missing_ = 0;          // bytes that the last one still lacks
  unsigned char next_min_ = 0x80, next_max_ = 0xBF;  // the next of them
  Json tokens_ = Json::array(), token_logprobs_ = Json::array();
  Json top_logprobs_ = Json::array(), text_offset_ = Json::array();
};

// vLLM's shape of prompt_logprobs: a list with null for the first token, then {"id": {logprob, rank,
// decoded_token}}.
Json prompt_logprobs(const std::vector<ScoredToken>& scores);

}  // namespace pagoda::openai
