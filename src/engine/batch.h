// What one step runs: a flat list of tokens and what to do with their logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/sequence.h"
#include "model/model.h"

namespace pagoda::engine {

// Draws the next token of one choice from one row. A sequence with drafts has one task for each row, one
// after the other: each draws as if the drafts before it were right.
struct SampleTask {
  Sequence* sequence = nullptr;
  int choice = 0;           // differs from the sequence's own for a choice that is about to be forked
  int64_t row = 0;          // index into Batch::logit_rows
  int64_t num_rows = 1;     // tasks of this sequence from here on
  int64_t drafts = 0;       // those before the token that is drawn
  bool shares_row = false;  // several choices draw from this row, so it must not be overwritten
  bool failed = false;
  bool complete = false;  // the constraint allows nothing after the result
  sampling::SampledToken result;
};

// Scores prompt token `position` with the row of the token before it.
struct ScoreTask {
  Request* request = nullptr;
  TokenId token;
  int64_t position = 0;
  int64_t row = 0;
  bool failed = false;
};

class Batch {
 public:
  explicit Batch(const EngineOptions& options);

  void clear();
  // Appends the sequence's scheduled tokens. Its tokens and table stay as they are until the step has run.
  void add(Sequence& sequence);

  bool empty() const { return members_.empty(); }
  int64_t num_tokens() const { return static_cast<int64_t>(tokens_.size()); }
  int64_t num_logit_rows() const { return static_cast<int64_t>(logit_rows_.size()); }
  const std::vector<Sequence*>& members() const { return members_; }
  std::vector<SampleTask>& samples() { return samples_; }
  // The drafts of a sequence whose first task this is.
  std::span<const TokenId> drafts(const SampleTask& task) const {
    const auto first = static_cast<size_t>(logit_rows_[static_cast<size_t>(task.row)] + 1);
    return std::span(tokens_).subspan(first, static_cast<size_t>(task.num_rows - 1));
  }
  std::vector<ScoreTask>& scores() { return scores_; }
  model::ForwardInput input() const {
    return {.tokens = tokens_, .sequences = sequences_, .logit_rows = logit_rows_};
  }

 private:
  void add_scores(Sequence& sequence, int64_t first_row);
  void add_samples(Sequence& sequence);

  std::vector<Sequence*> members_;
  std::vector<TokenId> tokens_;
  std::vector<kernels::AttentionSequence> sequences_;
  std::vector<int64_t> logit_rows_;
  std::vector<SampleTask> samples_;
  std::vector<ScoreTask> scores_;
};

}  // namespace pagoda::engine
