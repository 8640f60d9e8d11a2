// Answers of the wire contract: from the text and scores of choices to JSON, whole or in chunks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/openai/output/output_parser.h"
#include "base/ids.h"

namespace pagoda::openai {

// A token with its score; `bytes` are exact and may be part of a UTF-8 sequence.
struct TokenLogprob {
  TokenId id;
  std::string bytes;
  double logprob = 0.0;
};
struct ScoredToken {
  TokenLogprob token;
  int64_t rank = 0;
  std::vector<TokenLogprob> top;  // descending
};

struct UsageCounts {
  int64_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0;
};

// A prompt of the request, known before its first token.
struct PromptInfo {
  std::string text;  // for echo
  std::vector<TokenId> ids;
  std::vector<ScoredToken> scores;  // when asked for: one per id, the first without a token
  bool truncated = false;           // a part of what the client sent did not fit
};

enum class Finish : uint8_t { kNone, kStop, kLength };

// What one choice gained since the last delta.
struct ChoiceDelta {
  int index = 0;  // prompt number * n + choice of that prompt
  std::string text = {};
  std::vector<TokenId> ids = {};
  std::vector<ScoredToken> scores = {};  // one per id when asked for
  Finish finish = Finish::kNone;
  std::variant<std::monostate, std::string, TokenId> stop_reason = {};
};

struct ResponseOptions {
  std::string id;       // the same in every chunk
  int64_t created = 0;  // Unix seconds
  std::string model;
  int n = 1;        // choices of each prompt
  int best_of = 0;  // completions: more than n, if so many are generated and the n best answered
  int num_prompts = 1;
  std::optional<int> logprobs;  // as in CommonFields
  std::optional<int> prompt_logprobs;
  bool echo = false;
  bool return_token_ids = false;
  bool include_usage = false;           // chunks carry "usage": null, and a last chunk has the numbers
  bool continuous_usage_stats = false;  // every chunk has the numbers so far
  OutputParsing parsing;                // chat: a ChatRequest's
};

// {"error": {"message", "type", "param", "code"}}; empty param and code become null.
struct ErrorBody {
  std::string message, type, param, code;
};
std::string error_json(const ErrorBody& error);

// One server-sent event. Its name is empty where an API's streams are data only.
struct StreamEvent {
  std::string name, data;
};

// Collects (body) or passes on (events) what a generation yields. One of the two ways per object. Not
// thread-safe.
class ResponseBuilder {
 public:
  virtual ~ResponseBuilder() = default;
  // Before the first delta of any of the prompt's choices.
  virtual void set_prompt(int prompt, PromptInfo info) = 0;

  // Whole: all deltas, then the body.
  virtual void add(ChoiceDelta delta) = 0;
  virtual std::string body(const UsageCounts& usage) = 0;

  // Stream: zero or more events for a delta; `usage` as it stands after the delta.
  virtual std::vector<StreamEvent> events(ChoiceDelta delta, const UsageCounts& usage) = 0;
  // Once every choice has ended.
  virtual std::vector<StreamEvent> last_events(const UsageCounts& usage) = 0;
  // An error in the middle of a stream; nothing follows.
  virtual std::vector<StreamEvent> error_events(const ErrorBody& error) = 0;
};

// Completions and chat: a stream of JSON chunks without names, then [DONE] unless an error ended it.
class ChunkBuilder : public ResponseBuilder {
 public:
  explicit ChunkBuilder(bool include_usage) : include_usage_(include_usage) {}

  // Zero or more chunks for a delta.
  virtual std::vector<std::string> chunks(ChoiceDelta delta, const UsageCounts& usage) = 0;
  // The chunk without choices that ends a stream with include_usage.
  virtual std::string usage_chunk(const UsageCounts& usage) = 0;

  std::vector<StreamEvent> events(ChoiceDelta delta, const UsageCounts& usage) final;
  std::vector<StreamEvent> last_events(const UsageCounts& usage) final;
  std::vector<StreamEvent> error_events(const ErrorBody& error) final;

 private:
  const bool include_usage_;
};

std::unique_ptr<ChunkBuilder> make_completion_builder(ResponseOptions options);
std::unique_ptr<ChunkBuilder> make_chat_builder(ResponseOptions options);

// GET /v1/models and /v1/models/{id}.
struct ModelCard {
  std::string id;
  int64_t created = 0;
  int64_t max_model_len = 0;
  std::string quantization;  // "GGUF Q4_K_M" and the like; empty = null
};
std::string model_json(const ModelCard& card);
std::string model_list_json(const std::vector<ModelCard>& cards);

struct TokenizeAnswer {
  std::vector<TokenId> tokens;
  std::optional<std::vector<std::string>> token_strs;
  int64_t max_model_len = 0;
};
std::string tokenize_json(const TokenizeAnswer& answer);
// POST /detokenize and /apply-template.
std::string prompt_json(const std::string& prompt);
std::string version_json(const std::string& version);
std::string status_json(const std::string& status);

}  // namespace pagoda::openai
