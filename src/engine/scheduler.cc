#include "engine/scheduler.h"

#include <algorithm>

#include "base/check.h"

namespace pagoda::engine {
namespace {

// The least that a prompt gets when it shares a step: one block, or less where a step is too small to give
// several prompts a block each. Smaller chunks would only add overhead.
int64_t min_share(int64_t prompt_budget) {
  return std::clamp<int64_t>(prompt_budget / 4, 1, kKvBlockTokens);
}

// Requests that may step aside in one step after a lookup of their prompt's head. Those that are known to
// wait for the same prompt as in the step before need no lookup.
constexpr int kMaxDeferred = 64;

// Leading blocks that are equal in both.
int64_t equal_blocks(const Sequence& a, const Sequence& b) {
  const auto first_difference = std::ranges::mismatch(a.tokens, b.tokens).in1;
  return (first_difference - a.tokens.begin()) / kKvBlockTokens;
}

}  // namespace

Scheduler::Scheduler(const EngineOptions& options, kv::KvManager& kv)
    : options_(options),
      kv_(kv),
      step_budget_(static_cast<double>(options.itl_target_ms) / 1000, options.max_num_batched_tokens) {
  PAGODA_CHECK(options.max_num_batched_tokens > 0 && options.max_num_seqs > 0 &&
               options.long_prefill_token_threshold >= 0);
  running_.reserve(static_cast<size_t>(options.max_num_seqs));
  filling_.reserve(static_cast<size_t>(options.max_num_seqs));
  drafts_.reserve(static_cast<size_t>(std::max(0, options.speculation.max_rows)));
}

void Scheduler::insert(std::vector<Sequence*>& list, Sequence& sequence) {
  const auto before = [this](const Sequence* a, const Sequence* b) {
    return runs_before(*a, *b, options_.policy);
  };
  list.insert(std::upper_bound(list.begin(), list.end(), &sequence, before), &sequence);
}

void Scheduler::add(Sequence& sequence) {
  sequence.state = SequenceState::kWaiting;
  insert(waiting_, sequence);
}

void Scheduler::adopt(Sequence& sequence) {
  const bool is_full = std::ssize(running_) >= options_.max_num_seqs;
  // The step had none in the background, so nothing of the victim is under way.
  if (is_full && !sequence.background() && running_.back()->background()) preempt_last();
  if (std::ssize(running_) < options_.max_num_seqs) {
    sequence.state = SequenceState::kRunning;
    return insert(running_, sequence);
  }
  kv_.release(sequence.table);
  sequence.num_computed = 0;
  add(sequence);
}

void Scheduler::remove(Sequence& sequence) {
  std::erase(sequence.state == SequenceState::kRunning ? running_ : waiting_, &sequence);
  kv_.release(sequence.table);
  sequence.num_scheduled = 0;
  sequence.state = SequenceState::kFinished;
}

void Scheduler::schedule(Batch& batch) {
  budget_ = options_.max_num_batched_tokens;
  score_rows_ = kPromptScoreRowsPerStep;
  // The first of each list tells, as those in the background come last.
  background_step_ = (running_.empty() || running_.front()->background()) &&
                     (waiting_.empty() || waiting_.front()->background());
  preempted_ = false;
  filling_.clear();
  schedule_decodes();
  plan_drafts();
  // Whoever comes while a background step runs waits for its end, so that it keeps to the target, too.
  const int64_t num_waiting_for_step = background_step_ ? std::max<int64_t>(1, num_decodes_) : num_decodes_;
  budget_ = std::min(budget_, step_budget_.prompt_tokens(num_waiting_for_step));
  leave_room_for_prompts();
  min_share_ = min_share(budget_);
  schedule_prefills();
  admit_waiting();
  top_up();
  add_drafts();
  for (Sequence* sequence : running_) {
    if (sequence->num_scheduled == 0) continue;
    PAGODA_CHECK(takes_part(*sequence));
    batch.add(*sequence);
  }
  num_tokens_ = batch.num_tokens();
}

void Scheduler::note_step_time(double seconds) {
  // Drafts cost what prompt tokens cost, but only where there are so many tokens that each one counts.
  if (num_drafts_ > 0 && num_tokens_ == num_decodes_ + num_drafts_) return;
  step_budget_.observe(num_tokens_, num_decodes_, seconds);
}

int64_t Scheduler::count_taking_part(const std::vector<Sequence*>& list) const {
  const auto end = std::ranges::partition_point(list, [this](const Sequence* s) { return takes_part(*s); });
  return end - list.begin();
}

void Scheduler::schedule_decodes() {
  // By index: grant() may shorten the list behind the sequence that it serves.
  for (size_t i = 0; i < running_.size() && budget_ > 0 && takes_part(*running_[i]); ++i) {
    if (running_[i]->pending() == 1) grant(*running_[i], 1, /*may_preempt=*/true);
  }
  num_decodes_ = std::ranges::count_if(
      running_, [](const Sequence* s) { return s->num_scheduled == 1 && s->num_output() > 0; });
}

// Asks every decoding sequence for drafts and shares out the rows that are left, evenly among those that want
// some.
void Scheduler::plan_drafts() {
  drafts_.clear();
  num_drafts_ = 0;
  int64_t rows = std::min(budget_, options_.speculation.max_rows - num_decodes_);
  if (options_.speculation.num_tokens == 0 || rows <= 0) return;
  for (Sequence* sequence : running_) {
    const int limit = draft_limit(*sequence);
    if (limit <= 0) continue;
    if (!sequence->proposer) sequence->proposer = std::make_unique<DraftProposer>(options_.speculation);
    const int count = std::min(sequence->proposer->propose(sequence->tokens), limit);
    if (count > 0) drafts_.push_back({sequence, count});
  }
  auto askers = std::ssize(drafts_);
  for (DraftPlan& plan : drafts_) {
    plan.count = static_cast<int>(std::min<int64_t>(plan.count, (rows + askers - 1) / askers));
    rows -= plan.count;
    num_drafts_ += plan.count;
    --askers;
  }
}

// Drafts that can still become output: the step adds one token more than it has drafts.
int Scheduler::draft_limit(const Sequence& sequence) const {
  if (sequence.num_scheduled != 1 || sequence.pending() != 1 || sequence.num_output() == 0) return 0;
  const int64_t limit = std::min({int64_t{options_.speculation.num_tokens},
                                  sequence.request->spec.max_tokens - sequence.num_output() - 1,
                                  options_.max_model_len - sequence.num_tokens() - 1});
  return static_cast<int>(limit);
}

// Drafts count against the tokens of a step like those of prompts, so that they keep to the target of the
// inter-token latency too. Where prompts would be left with next to nothing, there are no drafts.
void Scheduler::leave_room_for_prompts() {
  const auto is_prompt = [this](const Sequence* s) { return takes_part(*s) && s->pending() > 1; };
  const bool has_prompts = count_taking_part(waiting_) > 0 || std::ranges::any_of(running_, is_prompt);
  if (!has_prompts) return;
  if (budget_ - num_drafts_ < kMinPromptTokens) drafts_.clear();
  if (!drafts_.empty()) budget_ -= num_drafts_;
}

// Writes down the drafts that there are blocks for.
void Scheduler::add_drafts() {
  num_drafts_ = 0;
  if (preempted_) return;  // blocks are scarce: drafts must not take those that others were preempted for
  for (const auto& [sequence, planned] : drafts_) {
    int64_t count = planned;
    const int64_t first = sequence->num_computed;
    while (!kv_.reserve(sequence->table, first, first + 1 + count)) {
      if (!takes_part(*running_.back())) {
        preempt_last();
        continue;
      }
      count = std::min(count, int64_t{sequence->table.size()} * kKvBlockTokens - first - 1);
      break;
    }
    if (count == 0) continue;
    sequence->proposer->append(static_cast<int>(count), sequence->tokens);
    // Behind a stop token nothing comes, and to guess the stop token itself saves nothing.
    const auto& stop_ids = sequence->request->spec.sampling.stop_token_ids;
    const auto drafts = std::span(sequence->tokens).last(static_cast<size_t>(count));
    const auto stop = std::ranges::find_first_of(drafts, stop_ids);
    sequence->num_drafts = stop - drafts.begin();
    sequence->tokens.resize(sequence->tokens.size() - static_cast<size_t>(drafts.end() - stop));
    num_drafts_ += sequence->num_drafts;
  }
}

void Scheduler::schedule_prefills() {
  const auto is_prefill = [this](const Sequence* s) { return takes_part(*s) && s->pending() > 1; };
  const int64_t free_slots = options_.max_num_seqs - count_taking_part(running_);
  competitors_ = std::ranges::count_if(running_, is_prefill) +
                 std::min<int64_t>(count_taking_part(waiting_), free_slots);
  for (size_t i = 0; i < running_.size() && budget_ > 0; ++i) {
    Sequence& sequence = *running_[i];
    if (!is_prefill(&sequence)) continue;
    --competitors_;
    grant(sequence, share(sequence), /*may_preempt=*/true);
    note_filling(sequence);
  }
}

void Scheduler::admit_waiting() {
  if (preempted_) return;  // blocks are scarce: whoever comes now would be the next to go
  int deferred = 0;
  for (size_t i = 0; i < waiting_.size() && budget_ > 0 && takes_part(*waiting_[i]);) {
    Sequence& sequence = *waiting_[i];
    if (still_shares(sequence)) {
      ++i;
      continue;
    }
    const bool has_slot = std::ssize(running_) < options_.max_num_seqs;
    switch (has_slot ? try_admit(sequence) : Admission::kNoRoom) {
      case Admission::kAdmitted:
        waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
        break;
      case Admission::kDeferred:
        ++i;
        if (++deferred == kMaxDeferred) return;
        break;
      case Admission::kNoRoom:
        if (!preempt_for(sequence)) return;  // nobody overtakes the head of the queue
        break;
    }
  }
}

Scheduler::Admission Scheduler::try_admit(Sequence& sequence) {
  Request& request = *sequence.request;
  // A prompt token found in the cache has no logits to score it with, so prompts to be scored run in full.
  const bool reads_cache = kv_.prefix_caching() && !request.scores_pending();
  if (request.scores_pending() && score_rows_ == 0) return Admission::kDeferred;
  // At least the last token has to run: its logits are wanted.
  const int64_t found =
      reads_cache ? kv_.match(sequence.table, sequence.tokens, sequence.num_tokens() - 1) : 0;
  const bool deferred = reads_cache && waits_for_shared_block(sequence);
  if (deferred || !has_room(sequence)) {
    kv_.release(sequence.table);
    return deferred ? Admission::kDeferred : Admission::kNoRoom;
  }
  if (!request.admitted) {
    request.admitted = true;
    request.times.cached_tokens = found;
    if (reads_cache) counters_.prefix_queries += static_cast<uint64_t>(request.num_prompt);
    counters_.prefix_hits += static_cast<uint64_t>(found);
  }
  sequence.num_computed = found;
  sequence.state = SequenceState::kRunning;
  insert(running_, sequence);
  competitors_ = std::max<int64_t>(0, competitors_ - 1);
  grant(sequence, share(sequence), /*may_preempt=*/false);
  note_filling(sequence);
  return Admission::kAdmitted;
}

bool Scheduler::has_room(const Sequence& sequence) const {
  if (running_.empty()) return true;
  // What running prompts still need is spoken for, and each running sequence will want one more block within
  // kKvBlockTokens steps: without that headroom the newcomer would soon be preempted again.
  int64_t needed = kv::blocks_for(sequence.num_tokens()) - sequence.table.size();
  for (const Sequence* other : running_) {
    if (!takes_part(*other)) break;  // gets nothing, and gives what it has
    needed += std::max<int64_t>(0, kv::blocks_for(other->num_tokens()) - other->table.size()) + 1;
  }
  return needed <= kv_.num_available();
}

// A waiting sequence takes the place of one in the background, and under kPriority of one that matters less.
bool Scheduler::preempt_for(const Sequence& sequence) {
  if (running_.empty()) return false;
  if (!takes_part(*running_.back())) {
    preempt_last();
    return true;
  }
  if (options_.policy != EngineOptions::Policy::kPriority) return false;
  if (running_.back()->request->spec.priority <= sequence.request->spec.priority) return false;
  preempt_last();
  return true;
}

void Scheduler::top_up() {
  for (Sequence* sequence : running_) {
    if (budget_ == 0) return;
    if (sequence->num_scheduled > 0) grant(*sequence, budget_, /*may_preempt=*/false);
  }
}

// A prompt that fits into what is left of the step gets all of it. A longer one gets half while others want
// some too, so that a short prompt behind a long one needn't wait until the long one is done.
int64_t Scheduler::share(const Sequence& sequence) const {
  if (competitors_ <= 0 || sequence.pending() <= budget_) return budget_;
  return std::max(min_share_, budget_ / 2);
}

// Schedules up to `limit` more tokens of a running sequence; maybe none.
void Scheduler::grant(Sequence& sequence, int64_t limit, bool may_preempt) {
  const bool scored = sequence.request->scores_pending();
  int64_t count = std::min({limit, budget_, sequence.pending() - sequence.num_scheduled});
  if (options_.long_prefill_token_threshold > 0) {
    count = std::min(count, options_.long_prefill_token_threshold - sequence.num_scheduled);
  }
  if (scored) count = std::min(count, score_rows_);
  if (count <= 0) return;
  const int64_t end = sequence.num_computed + sequence.num_scheduled + count;
  while (!kv_.reserve(sequence.table, sequence.num_computed, end)) {
    PAGODA_CHECK(running_.size() > 1, "{} tokens do not fit {} blocks", end, kv_.pool().total());
    if (!may_preempt && takes_part(*running_.back())) return;
    if (running_.back() == &sequence) return;
    preempt_last();
  }
  sequence.num_scheduled += count;
  budget_ -= count;
  if (scored) score_rows_ -= count;
}

void Scheduler::preempt_last() {
  Sequence& victim = *running_.back();
  running_.pop_back();
  std::erase_if(filling_, [&](const Filling& f) { return f.sequence == &victim; });
  budget_ += victim.num_scheduled;
  victim.num_scheduled = 0;
  victim.num_computed = 0;
  kv_.release(victim.table);
  victim.state = SequenceState::kPreempted;
  insert(waiting_, victim);
  if (takes_part(victim)) preempted_ = true;
  ++counters_.preemptions;
}

// True when the block that the sequence would have to compute next is the one that a running prompt is at: as
// soon as it is filled, it can be shared. That prompt gets on in every step that this is asked in, so nobody
// waits for what has stopped.
bool Scheduler::waits_for_shared_block(Sequence& sequence) {
  sequence.shared_blocks = 0;
  const int64_t usable = (sequence.num_tokens() - 1) / kKvBlockTokens;
  const int64_t next_block = sequence.table.size();
  if (filling_.empty() || next_block >= usable) return false;
  const kv::BlockKey key = kv_.key(sequence.table, sequence.tokens, static_cast<int>(next_block));
  for (const Filling& filling : filling_) {
    if (filling.next_block != next_block || filling.key != key) continue;
    const int64_t shared = std::min(usable, equal_blocks(sequence, *filling.sequence));
    if (shared <= next_block) continue;  // the keys collide
    sequence.shared_arrival = filling.sequence->request->arrival;
    sequence.shared_blocks = shared;
    return true;
  }
  return false;
}

// True while the prompt found by waits_for_shared_block() has not passed the last block that both share. It
// saves a lookup of the whole prefix in each step of a long one.
bool Scheduler::still_shares(const Sequence& sequence) const {
  if (sequence.shared_blocks == 0) return false;
  return std::ranges::any_of(filling_, [&](const Filling& filling) {
    return filling.sequence->request->arrival == sequence.shared_arrival &&
           filling.next_block < sequence.shared_blocks;
  });
}

void Scheduler::note_filling(Sequence& sequence) {
  if (!kv_.prefix_caching() || sequence.num_scheduled == 0) return;
  const int64_t next_block = sequence.num_computed / kKvBlockTokens;
  if ((next_block + 1) * kKvBlockTokens > sequence.num_tokens()) return;  // it will not be full
  filling_.push_back({.sequence = &sequence,
                      .next_block = next_block,
                      .key = kv_.key(sequence.table, sequence.tokens, static_cast<int>(next_block))});
}

void Scheduler::complete(Sequence& sequence) {
  sequence.num_computed += sequence.num_scheduled;
  sequence.num_scheduled = 0;
  kv_.publish(sequence.table, sequence.tokens, sequence.num_computed);
}

void Scheduler::complete_drafts(Sequence& sequence) {
  sequence.num_computed = sequence.num_tokens() - 1;
  kv_.publish(sequence.table, sequence.tokens, sequence.num_computed);
  kv_.shrink(sequence.table, sequence.num_computed);
}

void Scheduler::check_integrity() const {
  const auto in_order = [this](const std::vector<Sequence*>& list) {
    for (size_t i = 1; i < list.size(); ++i) {
      if (!runs_before(*list[i - 1], *list[i], options_.policy)) return false;
    }
    return true;
  };
  PAGODA_CHECK(in_order(running_) && in_order(waiting_));
  PAGODA_CHECK(std::ssize(running_) <= options_.max_num_seqs, "{} sequences run", running_.size());
  for (const Sequence* s : running_) {
    PAGODA_CHECK(s->state == SequenceState::kRunning && s->num_scheduled == 0 && s->pending() > 0);
    PAGODA_CHECK(s->table.size() >= kv::blocks_for(s->num_computed) && s->num_drafts == 0);
  }
  for (const Sequence* s : waiting_) {
    PAGODA_CHECK(s->state == SequenceState::kWaiting || s->state == SequenceState::kPreempted);
    PAGODA_CHECK(s->table.empty() && s->num_computed == 0 && s->num_scheduled == 0);
  }
}

}  // namespace pagoda::engine
