// The engine: token ids in, token ids out. Continuous batching over one model on one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "model/model.h"
#include "sampling/sampler.h"
#include "sampling/sampling_params.h"
#include "sampling/token_constraint.h"

namespace pagoda::engine {

// Rows of a step that decodes with drafts, at most: what reading the weights once can pay for. A step of M
// rows takes about max(1, M / 3.7) times as long as one of a single row on the machines measured, so that
// drafts bring nothing more from about twice that on. The drafts of a step are what the decoding sequences
// leave of it: with as many sequences, there are none.
inline constexpr int kVerifyRows = 8;

// Speculation by prompt lookup (engine/draft_proposer.h). Any setting gives the same tokens and
// log-probabilities; only the time differs.
struct SpeculationOptions {
  int num_tokens = 0;  // most drafts of one sequence in one step; 0: no speculation
  int min_match = 6;   // equal tokens that it takes to draft at all
  int max_match = 32;  // of several earlier places, the one with more equal tokens counts, up to this many
  int max_rows = kVerifyRows;
};

struct EngineOptions {
  int num_blocks = 0;                        // KV pool; from the memory limit or a flag
  int64_t max_model_len = 0;                 // prompt + output of one sequence
  int max_num_seqs = 128;                    // sequences that run at once
  int64_t max_num_batched_tokens = 512;      // token budget of one step
  int64_t long_prefill_token_threshold = 0;  // cap of one prompt chunk; 0 = the budget
  int64_t itl_target_ms =
      0;  // prompt tokens beside decodes are cut so that a step takes this; 0 = the budget
  bool enable_prefix_caching = true;
  int64_t max_num_queued_reqs = 1024;       // beyond: kOverloaded
  int64_t max_num_queued_tokens = 4 << 20;  // prompt tokens waiting; beyond: kOverloaded
  enum class Policy : uint8_t { kFcfs, kPriority } policy = Policy::kFcfs;
  int prefix_hash_bits = 128;  // fewer only in tests, to force collisions
  SpeculationOptions speculation;
};

// Prompt tokens per step whose scores (prompt_logprobs) are computed, over all requests: rows of logits are
// as wide as the vocabulary, so that a row for each token of a step could take gigabytes. 32 rows fill the
// matmul's panels.
inline constexpr int64_t kPromptScoreRowsPerStep = 32;

// Rows of logits that one step asks for at most; the model is told at load.
inline int64_t max_logit_rows(const EngineOptions& options) {
  const int draft_rows = options.speculation.num_tokens > 0 ? options.speculation.max_rows : 0;
  return options.max_num_seqs + kPromptScoreRowsPerStep + draft_rows;
}

enum class FinishReason : uint8_t {
  kNone,      // still running
  kStop,      // an end or stop token, or, without a token, a constraint that is complete
  kLength,    // max_tokens or max_model_len
  kAborted,   // by abort(); also what a drained or stopped engine sends
  kDeadline,  // the request's deadline passed
  kError,     // a bug was contained; the request ends, the process lives
};

// One token of one choice of one request, or its end. Delivered in order per choice; a step with accepted
// drafts brings several.
struct EngineEvent {
  RequestId request;
  int choice = 0;                // 0 .. n - 1
  bool has_token = false;        // false for events that only finish (abort, deadline, max_tokens 0)
  sampling::SampledToken token;  // valid when has_token; an end token is delivered too, with finish kStop
  FinishReason finish = FinishReason::kNone;
  int64_t cached_tokens = 0;  // prompt tokens found in the prefix cache; set in the first event of a request
  // In the first event of choice 0 when prompt logprobs were asked for: entry i scores prompt token i given
  // those before it; entry 0 is empty (token -1).
  std::shared_ptr<const std::vector<sampling::SampledToken>> prompt_logprobs;
};

// Called on the engine thread at the end of a step; must be quick and must not throw or call back into the
// engine.
using EventSink = std::function<void(std::span<const EngineEvent>)>;

struct EngineRequest {
  RequestId id;                 // unique; chosen by the caller
  std::vector<TokenId> prompt;  // 1 .. max_model_len - 1 tokens (max_model_len when max_tokens is 0)
  int n = 1;                    // choices that share the prompt; 1 .. max_num_seqs
  int64_t max_tokens = 16;      // 0 is allowed: the prompt is run (for prompt_logprobs), nothing is generated
  sampling::SamplingParams sampling;  // choice c draws from stream c of the seed
  // One for each choice, or none at all. They advance with the tokens that are drawn; a choice whose
  // constraint is complete ends with kStop.
  std::vector<std::shared_ptr<sampling::TokenConstraint>> constraints;
  int prompt_logprobs = -1;  // -1 = none; k = each prompt token and the top k
  int priority = 0;          // lower runs first under kPriority
  // Runs only in steps in which nothing else waits or runs, and is the first to be preempted. It has queue
  // limits of its own, of the same size.
  bool background = false;
  std::string cache_salt;  // prefix cache entries are shared only among equal salts
  std::optional<TimePoint> deadline;
  EventSink sink;
};

// For /metrics and the start-up block. A consistent copy.
struct EngineStats {
  int running = 0, waiting = 0;  // sequences: a choice each; a request whose prompt has not run is one
  int blocks_total = 0, blocks_used = 0, blocks_cached = 0, blocks_free = 0;  // cached: unused but findable
  uint64_t preemptions = 0, prefix_queries = 0, prefix_hits = 0;              // the last two in tokens
  uint64_t prompt_tokens = 0, generation_tokens = 0, steps = 0, rejected = 0;
  // Times that a sequence had drafts in a step, its drafts, and those that turned out to be right.
  uint64_t drafts = 0, draft_tokens = 0, accepted_tokens = 0;
};

// For /debug/blocks.
struct BlocksSnapshot {
  int total = 0, used = 0, free = 0, cached = 0, block_size = 0;
  struct Request {
    RequestId id;
    std::string state;  // "waiting", "running", "preempted"
    int choices = 0;
    int64_t prompt_tokens = 0, output_tokens = 0;
    int blocks = 0;  // distinct blocks of all its choices
  };
  std::vector<Request> requests;
};

// Times of one request, for the latency histograms; sent to the observer when a request ends.
struct RequestTimes {
  TimePoint arrived, scheduled, first_token, finished;
  int64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
  int n = 1;
  int64_t max_tokens = 0;
  FinishReason finish = FinishReason::kNone;  // of the last choice
  bool background = false;                    // its times say when others left it room
};

// Hooks for metrics; called on the engine thread. All optional.
struct EngineObserver {
  std::function<void(const RequestTimes&)> on_request_end;
  // One per token after the first of a choice, of requests that do not run in the background; 0 s for a token
  // of the same step as the one before.
  std::function<void(double seconds)> on_inter_token;
  std::function<void(int64_t tokens, double seconds)> on_step;  // tokens in the batch, drafts included
};

class Engine {
 public:
  // `pool` is used by the engine thread alone once start() ran. The model and the pool must outlive the
  // engine.
  Engine(model::Model& model, KvStorage kv, const EngineOptions& options, ComputePool& pool,
         const Clock& clock, EngineObserver observer = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const EngineOptions& options() const;

  // --- any thread ---
  // kInvalidArgument (could never fit the KV pool: names both sizes and --kv-cache-memory-bytes; ids, n or
  // max_tokens out of range), kContextLengthExceeded (the prompt leaves no room in max_model_len),
  // kOverloaded, kShuttingDown. On success events follow on the sink until every choice has finished.
  Result<void> submit(EngineRequest request);
  // Ends all choices (or one) with kAborted at the start of the next step. Unknown or finished ids are
  // ignored.
  void abort(RequestId id);
  void abort(RequestId id, int choice);
  EngineStats stats() const;
  BlocksSnapshot debug_blocks() const;

  void start();        // runs steps on an own thread; it sleeps while there is nothing to do
  void begin_drain();  // submit() answers kShuttingDown from now on; what runs and waits goes on
  bool idle() const;   // nothing waits or runs
  void stop();         // aborts what is left, joins the thread. Idempotent

  // --- single-threaded use by tests, instead of start() ---
  // Runs one step; false if there was nothing to do.
  bool step();
  // Block accounting is exact: used + cached + free = total, reference counts match the block tables, the
  // free list and LRU hold each block once. PAGODA_CHECKs.
  void check_integrity() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pagoda::engine
