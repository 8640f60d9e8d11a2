// Requests of the wire contract as typed, checked values. Nothing below this module sees JSON, except the
// context of a chat template, which is JSON by nature and passed on as text.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "api/openai/chat_history.h"
#include "api/openai/chat_roles.h"
#include "api/openai/output/output_parser.h"
#include "base/ids.h"
#include "base/result.h"

namespace pagoda::openai {

// What generation_config.json says; used where a request is silent.
struct SamplingDefaults {
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<int64_t> top_k, max_tokens;
};

// What the server knows and the request must fit into.
struct ParseOptions {
  std::vector<std::string> model_names;  // names that a request may use
  SamplingDefaults defaults;
  int64_t vocab_size = 0;      // token ids of a request are below it
  int max_n = 128;             // choices of one prompt: the engine runs them side by side
  int max_prompts = 1024;      // prompts of one completions call
  int max_logprobs = 20;       // -1: no limit, and -1 in a request means the whole vocabulary
  bool strict = false;         // an unknown field is an error
  bool content_parts = false;  // the chat template iterates over message.content
  std::vector<std::pair<std::string, std::string>>
      template_variables;                             // bos_token, eos_token, ... of the model
  HistoryShape history;                               // as the chat template wants it
  ChatRoles roles;                                    // as the chat template knows them
  RenderFunction render;                              // the chat template; may be empty
  std::shared_ptr<const OutputFormat> output_format;  // of the model's answers; may be null
};

inline constexpr int kAllLogprobs = -1;  // "top" of a request that wants the whole vocabulary

struct SamplingFields {
  double temperature = 1.0, top_p = 1.0, min_p = 0.0;
  double repetition_penalty = 1.0, frequency_penalty = 0.0, presence_penalty = 0.0;
  int64_t top_k = 0;  // 0 = off
  int64_t min_tokens = 0;
  std::optional<int64_t> seed;
  std::vector<std::string> stop;
  std::vector<TokenId> stop_token_ids;
  bool include_stop_str_in_output = false;
  bool ignore_eos = false;
  std::vector<std::pair<TokenId, float>> logit_bias;
  std::vector<TokenId> allowed_token_ids;  // empty = all
  std::vector<std::string> bad_words;
};

// What the output must match, as text of the named language.
struct OutputGrammar {
  enum class Kind : uint8_t { kJsonObject, kJsonSchema, kRegex, kChoice, kLark, kGbnf };
  Kind kind = Kind::kJsonObject;
  std::string text;   // a choice is a JSON array of strings
  std::string param;  // the field that it came from, for errors
};

struct CommonFields {
  std::string model;  // as the client wrote it; empty = the server's own
  int n = 1;
  std::optional<int64_t> max_tokens;  // what the client asked for; must fit
  std::optional<int64_t>
      default_max_tokens;  // bound where the client is silent; absent: the rest of the context
  SamplingFields sampling;
  std::optional<OutputGrammar> grammar;
  std::optional<int> logprobs;         // alternatives per token; 0 = the sampled one only
  std::optional<int> prompt_logprobs;  // likewise
  bool stream = false, include_usage = false, continuous_usage_stats = false;
  bool add_special_tokens = true, skip_special_tokens = true;
  std::vector<TokenId> shown_special_tokens;  // not skipped: markup that the output parser needs
  bool return_token_ids = false;
  int64_t truncate_prompt_tokens = 0;  // 0 = off, -1 = what fits the context
  int priority = 0;
  std::string cache_salt, user, request_id;
  std::optional<std::chrono::milliseconds> timeout;
  std::vector<std::string> unknown_fields;  // for the warning header; never more than kMaxReportedFields
};
inline constexpr size_t kMaxReportedFields = 16;

using PromptInput = std::variant<std::string, std::vector<TokenId>>;

struct CompletionRequest {
  CommonFields common;
  std::vector<PromptInput> prompts;  // one or more
  bool echo = false;
  int best_of = 1;                    // choices to generate for each prompt; the n best are answered
  std::optional<std::string> suffix;  // the prompts are what comes before the gap
  bool stop_at_suffix = true;         // the output must not repeat the suffix's first line
};

struct ChatRequest {
  CommonFields common;
  std::string context_json;  // everything that the template sees
  OutputParsing parsing;     // of every choice's text
};

// The bodies of POST /v1/completions and /v1/chat/completions. kInvalidArgument with `param`, kNotFound for
// an unknown model, kUnimplemented naming a feature that this version lacks.
Result<CompletionRequest> parse_completion_request(std::string_view body, const ParseOptions& options);
Result<ChatRequest> parse_chat_request(std::string_view body, const ParseOptions& options);

struct TokenizeRequest {
  std::string model;
  std::optional<std::string> prompt;  // exactly one of the two is set
  std::optional<std::string> context_json;
  bool add_special_tokens = true;
  bool parse_special_tokens = true;
  bool return_token_strs = false;
};
struct DetokenizeRequest {
  std::string model;
  std::vector<TokenId> tokens;
};
Result<TokenizeRequest> parse_tokenize_request(std::string_view body, const ParseOptions& options);
Result<DetokenizeRequest> parse_detokenize_request(std::string_view body, const ParseOptions& options);
// POST /apply-template: messages and template fields; answers the template's context.
Result<std::string> parse_apply_template_request(std::string_view body, const ParseOptions& options);

}  // namespace pagoda::openai
