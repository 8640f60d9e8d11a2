// Which sequences get how many tokens of a step, and which give their blocks back for others.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/batch.h"
#include "engine/sequence.h"
#include "engine/step_budget.h"
#include "kv/kv_manager.h"

namespace pagoda::engine {

struct SchedulerCounters {
  uint64_t preemptions = 0;
  uint64_t prefix_queries = 0, prefix_hits = 0;  // tokens, of first admissions
};

// A step's tokens go first to running sequences that decode, then to prompts that run, then to new ones, all
// in the order of runs_before(). Blocks are taken on demand. When none is left, a running sequence takes
// those of the last sequence in that order, which waits again and recomputes; the last one itself just
// pauses. Hence the first sequence always makes progress: it can take every block, and admission made sure
// that the pool is enough for it alone. Drafts come last: they take only blocks that nobody else took, and
// what the rejected ones held is given back after the step.
//
// Sequences in the background take part in a step only if there are no others at all: a step never has
// tokens of both kinds. While there are others, those in the background keep their blocks and their places in
// running(), and lose both, the last one first, as soon as one of the others wants them.
class Scheduler {
 public:
  Scheduler(const EngineOptions& options, kv::KvManager& kv);

  void add(Sequence& sequence);     // waits from now on
  void adopt(Sequence& sequence);   // a fork with a table: runs if there is a slot, else waits and recomputes
  void remove(Sequence& sequence);  // finished, from any state: gives its blocks back

  // Decides the step: fills the empty `batch`.
  void schedule(Batch& batch);
  // The scheduled step took `seconds`: the next ones share out their tokens by it.
  void note_step_time(double seconds);
  // The step ran: the sequence's scheduled tokens are in the cache.
  void complete(Sequence& sequence);
  // The sequence took over those of its drafts that were right; all its tokens but the last are in the cache.
  void complete_drafts(Sequence& sequence);

  const std::vector<Sequence*>& running() const { return running_; }
  const std::vector<Sequence*>& waiting() const { return waiting_; }
  const SchedulerCounters& counters() const { return counters_; }
  // Both lists are in order, states are right, and who waits holds nothing. PAGODA_CHECKs.
  void check_integrity() const;

 private:
  enum class Admission : uint8_t { kAdmitted, kDeferred, kNoRoom };

  // A running prompt and the first block that it has not filled yet.
  struct Filling {
    const Sequence* sequence;
    int64_t next_block;
    kv::BlockKey key;
  };

  // Drafts that a sequence may get in this step.
  struct DraftPlan {
    Sequence* sequence;
    int count;
  };

  void schedule_decodes();
  void plan_drafts();
  int draft_limit(const Sequence& sequence) const;
  void leave_room_for_prompts();
  void add_drafts();
  void schedule_prefills();
  void admit_waiting();
  void top_up();

  // All that the current step is about. Both lists begin with these.
  bool takes_part(const Sequence& sequence) const { return background_step_ || !sequence.background(); }
  int64_t count_taking_part(const std::vector<Sequence*>& list) const;

  Admission try_admit(Sequence& sequence);
  bool has_room(const Sequence& sequence) const;
  bool preempt_for(const Sequence& sequence);
  void grant(Sequence& sequence, int64_t limit, bool may_preempt);
  int64_t share(const Sequence& sequence) const;
  void preempt_last();
  bool waits_for_shared_block(Sequence& sequence);
  bool still_shares(const Sequence& sequence) const;
  void note_filling(Sequence& sequence);
  void insert(std::vector<Sequence*>& list, Sequence& sequence);

  const EngineOptions options_;
  kv::KvManager& kv_;
  std::vector<Sequence*> running_, waiting_;  // both in the order of runs_before()
  SchedulerCounters counters_;
  StepBudget step_budget_;

  // Of the current step.
  int64_t budget_ = 0;             // tokens left
  int64_t num_decodes_ = 0;        // sequences that get the token after an output token
  int64_t num_tokens_ = 0;         // of the whole batch, once it is decided
  int64_t min_share_ = 0;          // the least that a prompt gets while others want some too
  int64_t score_rows_ = 0;         // prompt tokens left that may be scored
  int64_t competitors_ = 0;        // prompts that may still want tokens, after the one being served
  bool background_step_ = false;   // nobody else is there
  bool preempted_ = false;         // somebody who takes part
  std::vector<Filling> filling_;   // prompts that get on in this step
  std::vector<DraftPlan> drafts_;  // fewer than max_rows together
  int64_t num_drafts_ = 0;         // planned, then granted
};

}  // namespace pagoda::engine
