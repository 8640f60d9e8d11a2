// Transport-neutral generation: a typed request in, typed events out. Knows text and tokens, no JSON shapes
// of an API and no sockets. The chat context is passed through as JSON text, because the template decides
// what it means.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/executor.h"
#include "base/ids.h"
#include "base/result.h"
#include "engine/engine.h"
#include "sampling/sampling_params.h"
#include "text/chat_template.h"
#include "text/fim_template.h"
#include "text/tokenizer.h"

namespace pagoda::service {

// Exactly one of them is the prompt.
struct TextPrompt {
  std::string text;
  bool add_special_tokens = true;
};
struct ChatPrompt {
  std::string context_json;  // messages, tools, add_generation_prompt, template kwargs, ...
};
// Another file of the same project, in front of the one that is edited.
struct FimFile {
  std::string name, text;
};
// Fill in the middle: the text on both sides of the cursor. Written with the model's own FIM tokens; what
// doesn't fit the context is cut at the far ends of prefix and suffix, files first.
struct FimPrompt {
  std::string prefix, suffix;
  std::vector<FimFile> files;  // the nearest last
  bool stop_at_suffix = true;  // FimSuffixGuard's rule
};
// What had to stay out of the prompt.
struct FimCut {
  int64_t prefix_tokens = 0, suffix_tokens = 0;
  int files = 0;

  bool any() const { return prefix_tokens > 0 || suffix_tokens > 0 || files > 0; }
};
using Prompt = std::variant<TextPrompt, std::vector<TokenId>, ChatPrompt, FimPrompt>;

// What the output must match, as text of the named language.
struct OutputGrammar {
  enum class Kind : uint8_t {
    kJsonObject,  // any JSON object; no text
    kJsonSchema,  // JSON Schema
    kRegex,       // the whole output matches
    kChoice,      // a JSON array of strings: one of them
    kLark,        // Lark as llguidance reads it, %json and special tokens included
    kGbnf,        // llama.cpp's grammar language
  };
  Kind kind = Kind::kJsonObject;
  std::string text;
  std::string param;  // the request's field, for errors
};

struct GenerationRequest {
  Prompt prompt;
  int n = 1;
  std::optional<int64_t> max_tokens;          // prompt and these must fit the context; see default_max_tokens
  std::optional<int64_t> default_max_tokens;  // without max_tokens: at most so many, as far as the context
                                              // goes; absent: the rest of the context
  sampling::SamplingParams
      sampling;                  // token ids still unvalidated; stop_token_ids without the model's end tokens
  std::optional<uint64_t> seed;  // absent: random
  std::vector<std::string> stop;
  std::vector<std::string> bad_words;  // encoded here into sampling.bad_words
  bool include_stop_str_in_output = false;
  bool ignore_eos = false;
  bool skip_special_tokens = true;
  std::vector<TokenId> shown_special_tokens;  // are text nevertheless
  std::optional<OutputGrammar> grammar;
  int prompt_logprobs = -1;
  bool prompt_text = false;  // PromptEvent.text is wanted
  int64_t truncate_prompt_tokens =
      0;  // keep the last so many prompt tokens; 0 = off, -1 = what fits the context
  int priority = 0;
  bool background = false;  // runs when nothing else does: engine::EngineRequest::background
  std::string cache_salt;
  std::optional<std::chrono::milliseconds> timeout;
};

struct TokenScore {
  TokenId token;
  std::string bytes;  // exact; may be part of a UTF-8 sequence
  float logprob = 0.0f;
};
struct ScoredToken {
  TokenScore token;
  int64_t rank = 0;
  std::vector<TokenScore> top;
};

struct Usage {
  int64_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0;
};

// Sent once, before the first ChoiceEvent.
struct PromptEvent {
  std::vector<TokenId> ids;
  std::string text;  // when asked for: as sent or rendered, else decoded
  std::vector<ScoredToken>
      logprobs;  // when asked for: one per id; the first names its token and has no score
  int64_t cached_tokens = 0;
  FimCut fim_cut;
};

// What a choice gained. An event has text or ends the choice: tokens without certain text (inside a
// character, or held back as a possible stop string) wait for the next one. The end or stop token is part of
// the output only with include_stop_str_in_output; else it is neither counted nor listed.
struct ChoiceEvent {
  int choice = 0;
  std::string text;                   // certain text
  std::vector<TokenId> token_ids;     // tokens of this event, hidden stop text included
  std::vector<ScoredToken> logprobs;  // one per token id when asked for
  engine::FinishReason finish = engine::FinishReason::kNone;
  // kStop: the stop string, or the stop token id, or neither for the model's own end token.
  std::variant<std::monostate, std::string, TokenId> stop_reason;
  int64_t completion_tokens = 0;  // of this choice so far
};

struct EndEvent {
  Usage usage;
  std::optional<Error> error;  // deadline, aborted by shutdown, bug
};

using GenerationEvent = std::variant<PromptEvent, ChoiceEvent, EndEvent>;

// Called on a text thread or the request's executor, one call at a time per request, in order; EndEvent is
// the last.
using GenerationSink = std::function<void(GenerationEvent)>;

// A running generation; destroying it does not cancel.
class Generation {
 public:
  virtual ~Generation() = default;
  virtual void cancel() = 0;  // any thread; EndEvent follows
};

struct ServiceOptions {
  std::string model_name;
  std::vector<TokenId> eos;
  std::string no_generation;  // why generate() refuses everything, for clients; empty: it doesn't
  int text_threads = 2;  // with two or more, one is kept for running streams while others encode long prompts
  int64_t vocab_size = 0;                                 // of the logits
  std::shared_ptr<const text::FimTemplate> fim_template;  // null: the model can't fill in the middle
  std::optional<uint64_t> seed;  // requests without a seed get one made of this and their number
  int64_t stream_interval = 1;   // tokens that a choice's event has at least, but for the first and the last
};

// The engine must outlive the service; stop it first, so that what runs ends with an event.
class Service {
 public:
  Service(engine::Engine& engine, std::shared_ptr<const text::Tokenizer> tokenizer,
          std::optional<text::ChatTemplate> chat_template, const ServiceOptions& options, const Clock& clock);
  ~Service();

  const text::Tokenizer& tokenizer() const;
  const text::ChatTemplate* chat_template() const;
  const text::FimTemplate* fim_template() const;

  // Encodes and checks on a text thread, then answers through `accepted` (on that thread) before any event:
  // the generation, or the error that becomes an HTTP status (context length, out of vocabulary, overloaded,
  // ...). What follows the PromptEvent is decoded and sent by `executor`, where there is one and as long as
  // it takes work: a thread that writes to the client itself saves a wake-up for each token. Tokens with
  // scores stay on the text threads. The executor must have run what it took before the service ends.
  void generate(GenerationRequest request, std::function<void(Result<std::shared_ptr<Generation>>)> accepted,
                GenerationSink sink, std::shared_ptr<Executor> executor = nullptr);

  // Runs a function on the text pool: parsing, /tokenize and the like, so that long texts never block an I/O
  // thread.
  void run_on_text_pool(std::function<void()> work);
  // Blocks until everything that was posted so far has run; for tests and orderly shutdown.
  void flush();

  // What generate() would give to the engine, without any limit of length. On the text pool.
  Result<text::RenderedPrompt> encode(const Prompt& prompt, bool parse_special_tokens = true) const;

  int64_t max_model_len() const;
  int max_num_seqs() const;
  int64_t vocab_size() const;  // of the logits: token ids of requests are below it
  const std::string& model_name() const;
  engine::EngineStats stats() const;
  engine::BlocksSnapshot debug_blocks() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pagoda::service
