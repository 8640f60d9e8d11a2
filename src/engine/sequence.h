// What the engine knows about a request and about each of its choices.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/draft_proposer.h"
#include "engine/engine.h"
#include "kv/block_table.h"

namespace pagoda::engine {

struct Request;

enum class SequenceState : uint8_t {
  kWaiting,    // has no slot yet
  kRunning,    // may hold blocks
  kPreempted,  // waits again; its tokens are kept, its blocks were given back
  kFinished,
};

// Tokens that a sequence has room for from the start, so that its steps allocate nothing; beyond 1024 tokens
// of output it grows by doubling.
inline int64_t reserved_tokens(int64_t num_prompt, int64_t max_tokens) {
  return num_prompt + std::min<int64_t>(max_tokens, 1024);
}

// One choice: its tokens and how many of them are in the KV cache.
struct Sequence {
  Request* request = nullptr;
  int choice = 0;
  SequenceState state = SequenceState::kWaiting;
  std::vector<TokenId> tokens;  // the prompt, then the output; after a preemption all of it runs again
  int64_t num_prompt = 0;
  int64_t num_computed = 0;   // leading tokens whose keys and values are in the cache
  int64_t num_scheduled = 0;  // tokens that the current step adds, without drafts
  int64_t num_drafts = 0;     // guesses at the end of `tokens`; only while a step runs
  kv::BlockTable table;
  TimePoint last_token_time;
  // While it waits: the running prompt whose blocks it will share, and up to which block both are equal.
  uint64_t shared_arrival = 0;
  int64_t shared_blocks = 0;  // 0: none is known

  std::unique_ptr<DraftProposer> proposer;  // null until drafts are first thought of

  bool background() const;
  int64_t num_tokens() const { return static_cast<int64_t>(tokens.size()) - num_drafts; }
  int64_t num_output() const { return num_tokens() - num_prompt; }
  // Tokens to run before the next one can be sampled; never 0 between steps.
  int64_t pending() const { return num_tokens() - num_computed; }
  // Of the token after the first `drafts` drafts.
  sampling::TokenHistory history(int64_t drafts = 0) const {
    const std::span all = std::span(tokens).first(static_cast<size_t>(num_tokens() + drafts));
    return {.prompt = all.first(static_cast<size_t>(num_prompt)),
            .output = all.subspan(static_cast<size_t>(num_prompt))};
  }
  void drop_drafts() {
    tokens.resize(static_cast<size_t>(num_tokens()));
    num_drafts = 0;
  }
};

struct Request {
  EngineRequest spec;    // without the prompt, which moved into the first sequence
  uint64_t arrival = 0;  // position in the order of arrival
  int64_t num_prompt = 0;
  int live_choices = 0;
  // The first sequence runs the prompt. When it is done, every choice in `unforked` gets a sequence of its
  // own. Until then the first sequence stands for the lowest choice that is left.
  std::vector<std::unique_ptr<Sequence>> sequences;
  std::vector<int> unforked;  // ascending, above the first sequence's choice
  std::shared_ptr<std::vector<sampling::SampledToken>> prompt_scores;  // null unless wanted or when delivered
  int64_t num_scored = 0;  // leading entries of prompt_scores that are done
  bool queued = true;      // counts against the queue's limits
  bool admitted = false;   // ran once; times.cached_tokens is set
  bool prompt_counted = false;
  bool first_event_sent = false;
  RequestTimes times;
  std::vector<EngineEvent> events;  // of the current step

  bool scores_pending() const { return prompt_scores != nullptr && num_scored < num_prompt; }
  sampling::TokenConstraint* constraint(int choice) const {
    return spec.constraints.empty() ? nullptr : spec.constraints[static_cast<size_t>(choice)].get();
  }
  Sequence* find(int choice);  // null when it is unforked
};

inline bool Sequence::background() const {
  return request->spec.background;
}

// The order in which sequences get tokens and blocks; those in the background come last. Total: no two
// sequences are equal. The last one is preempted first.
bool runs_before(const Sequence& a, const Sequence& b, EngineOptions::Policy policy);

}  // namespace pagoda::engine
