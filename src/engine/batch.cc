#include "engine/batch.h"

#include <algorithm>

#include "base/check.h"

namespace pagoda::engine {

Batch::Batch(const EngineOptions& options) {
  const auto max_seqs = static_cast<size_t>(options.max_num_seqs);
  members_.reserve(max_seqs);
  tokens_.reserve(static_cast<size_t>(options.max_num_batched_tokens));
  sequences_.reserve(max_seqs);
  logit_rows_.reserve(static_cast<size_t>(max_logit_rows(options)));
  samples_.reserve(static_cast<size_t>(max_logit_rows(options) - kPromptScoreRowsPerStep));
  scores_.reserve(kPromptScoreRowsPerStep);
}

void Batch::clear() {
  members_.clear();
  tokens_.clear();
  sequences_.clear();
  logit_rows_.clear();
  samples_.clear();
  scores_.clear();
}

void Batch::add(Sequence& sequence) {
  const int64_t first_row = num_tokens();
  const auto first = sequence.tokens.begin() + sequence.num_computed;
  members_.push_back(&sequence);
  const int64_t count = sequence.num_scheduled + sequence.num_drafts;
  tokens_.insert(tokens_.end(), first, first + count);
  sequences_.push_back({.first_token = first_row,
                        .num_tokens = count,
                        .first_position = sequence.num_computed,
                        .block_table = sequence.table.blocks()});
  if (sequence.request->scores_pending()) add_scores(sequence, first_row);
  if (sequence.num_scheduled == sequence.pending() && sequence.request->spec.max_tokens > 0)
    add_samples(sequence);
}

void Batch::add_scores(Sequence& sequence, int64_t first_row) {
  Request& request = *sequence.request;
  // Token t is scored by the row at position t - 1. Those that a preempted run scored already are left out.
  const int64_t begin = std::max(request.num_scored, sequence.num_computed + 1);
  const int64_t end = std::min(request.num_prompt, sequence.num_computed + sequence.num_scheduled + 1);
  for (int64_t position = begin; position < end; ++position) {
    scores_.push_back({.request = &request,
                       .token = sequence.tokens[static_cast<size_t>(position)],
                       .position = position,
                       .row = num_logit_rows()});
    logit_rows_.push_back(first_row + position - 1 - sequence.num_computed);
  }
}

void Batch::add_samples(Sequence& sequence) {
  const std::vector<int>& unforked = sequence.request->unforked;
  SampleTask task{
      .sequence = &sequence, .choice = sequence.choice, .shares_row = !unforked.empty(), .result = {}};
  const int64_t first_row = num_tokens() - 1 - sequence.num_drafts;
  for (; task.drafts <= sequence.num_drafts; ++task.drafts) {
    task.row = num_logit_rows();
    task.num_rows = 1 + sequence.num_drafts - task.drafts;
    logit_rows_.push_back(first_row + task.drafts);
    samples_.push_back(task);
  }
  PAGODA_CHECK(unforked.empty() || sequence.num_drafts == 0, "drafts of {} choices", unforked.size() + 1);
  task.drafts = 0;
  for (const int choice : unforked) {
    task.choice = choice;
    samples_.push_back(task);
  }
}

}  // namespace pagoda::engine
