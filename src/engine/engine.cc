#include "engine/engine.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <thread>

#include "base/check.h"
#include "engine/admission.h"
#include "engine/batch.h"
#include "engine/inbox.h"
#include "engine/kv_warmer.h"
#include "engine/request_table.h"
#include "engine/runner.h"
#include "engine/scheduler.h"
#include "engine/snapshot.h"
#include "kv/kv_manager.h"

namespace pagoda::engine {

class Engine::Impl {
 public:
  Impl(model::Model& model, KvStorage kv, const EngineOptions& engine_options, ComputePool& pool,
       const Clock& clock, EngineObserver observer);

  bool step();
  void start_thread();
  void run_until_stopped();
  void shut_down();
  Result<void> submit(EngineRequest request);
  void check_integrity() const;

  const EngineOptions options;
  Inbox inbox;
  Snapshot snapshot;
  std::mutex stop_mutex;
  std::thread thread;

 private:
  bool receive();
  void run();
  void publish();

  void add(EngineRequest request, TimePoint arrived);
  void abort(RequestId id, int choice);
  void end_overdue(TimePoint now);
  void finish_choice(Request& request, int choice, FinishReason reason);
  void finish_request(Request& request, FinishReason reason);

  void complete(Sequence& sequence);
  void fork_choices(Sequence& leader);
  void accept(std::span<SampleTask> rows, TimePoint now);
  FinishReason take_over(Sequence& sequence, std::span<SampleTask> rows, TimePoint now);
  FinishReason finish_reason(const Sequence& sequence) const;

  const Clock& clock_;
  const EngineObserver observer_;
  KvStorage storage_;
  const AdmissionLimits limits_;
  kv::KvManager kv_;
  Scheduler scheduler_;
  Runner runner_;
  RequestTable requests_;
  Batch batch_;
  std::vector<Command> commands_;
  std::optional<KvWarmer> warmer_;  // while the thread runs
  EngineStats totals_;              // the counters; the rest is filled by the snapshot
};

Engine::Impl::Impl(model::Model& model, KvStorage kv, const EngineOptions& engine_options, ComputePool& pool,
                   const Clock& clock, EngineObserver observer)
    : options(engine_options),
      inbox(engine_options),
      clock_(clock),
      observer_(std::move(observer)),
      storage_(std::move(kv)),
      limits_{.max_model_len = options.max_model_len,
              .vocab_size = model.config().vocab_size,
              .max_num_seqs = options.max_num_seqs,
              .num_blocks = storage_.num_blocks(),
              .block_bytes = kv_block_bytes(storage_.shape())},
      kv_(storage_,
          {.enable_prefix_caching = options.enable_prefix_caching, .hash_bits = options.prefix_hash_bits}),
      scheduler_(options, kv_),
      runner_(model, storage_, options, pool),
      requests_(observer_),
      batch_(options) {
  PAGODA_CHECK(options.num_blocks == storage_.num_blocks(), "{} blocks wanted, {} given", options.num_blocks,
               storage_.num_blocks());
  snapshot.update(requests_, scheduler_, kv_.pool(), totals_);
}

// One step: what came in, who gets tokens, the model, what came out.
bool Engine::Impl::step() {
  const bool received = receive();
  if (!received && requests_.empty()) return false;
  batch_.clear();
  scheduler_.schedule(batch_);
  if (!batch_.empty()) run();
  publish();
  return true;
}

bool Engine::Impl::receive() {
  inbox.take(commands_);
  const bool received = !commands_.empty();
  for (Command& command : commands_) {
    if (command.request) {
      add(std::move(*command.request), command.arrived);
    } else {
      abort(command.id, command.choice);
    }
  }
  commands_.clear();
  end_overdue(clock_.now());
  return received;
}

void Engine::Impl::run() {
  const TimePoint start = clock_.now();
  for (Sequence* sequence : batch_.members()) requests_.mark_started(*sequence->request, start);
  runner_.run(batch_);
  const TimePoint end = clock_.now();
  for (const ScoreTask& task : batch_.scores()) {
    if (task.failed) finish_request(*task.request, FinishReason::kError);
  }
  for (Sequence* sequence : batch_.members()) complete(*sequence);
  for (std::span<SampleTask> left = batch_.samples(); !left.empty();) {
    const auto count = static_cast<size_t>(left.front().num_rows);
    accept(left.first(count), end);
    left = left.subspan(count);
  }
  ++totals_.steps;
  scheduler_.note_step_time(to_seconds(end - start));
  if (observer_.on_step) observer_.on_step(batch_.num_tokens(), to_seconds(end - start));
}

void Engine::Impl::publish() {
  for (Request* broken : requests_.deliver(clock_.now())) finish_request(*broken, FinishReason::kError);
  totals_.preemptions = scheduler_.counters().preemptions;
  totals_.prefix_queries = scheduler_.counters().prefix_queries;
  totals_.prefix_hits = scheduler_.counters().prefix_hits;
  snapshot.update(requests_, scheduler_, kv_.pool(), totals_);
  inbox.settle(requests_.take_queue_change());
}

void Engine::Impl::add(EngineRequest spec, TimePoint arrived) {
  const int64_t expected = reserved_tokens(std::ssize(spec.prompt), spec.max_tokens);
  kv::BlockTable table = kv_.make_table(spec.cache_salt, expected);
  Request* request = requests_.add(std::move(spec), arrived, std::move(table));
  if (request == nullptr) return;
  scheduler_.add(*request->sequences.front());
  if (request->spec.max_tokens == 0 && !request->scores_pending())
    finish_request(*request, FinishReason::kLength);
}

void Engine::Impl::abort(RequestId id, int choice) {
  Request* request = requests_.find(id);
  if (request == nullptr) return;
  if (choice == kAllChoices) {
    finish_request(*request, FinishReason::kAborted);
  } else {
    finish_choice(*request, choice, FinishReason::kAborted);
  }
}

void Engine::Impl::end_overdue(TimePoint now) {
  requests_.for_each([&](Request& request) {
    if (request.spec.deadline && *request.spec.deadline <= now)
      finish_request(request, FinishReason::kDeadline);
  });
}

void Engine::Impl::finish_request(Request& request, FinishReason reason) {
  while (!request.unforked.empty()) finish_choice(request, request.unforked.back(), reason);
  for (const auto& sequence : request.sequences) finish_choice(request, sequence->choice, reason);
}

// Does nothing when the choice does not exist or has finished.
void Engine::Impl::finish_choice(Request& request, int choice, FinishReason reason) {
  if (std::erase(request.unforked, choice) > 0) return requests_.emit_finish(request, choice, reason);
  Sequence* sequence = request.find(choice);
  if (sequence == nullptr || sequence->state == SequenceState::kFinished) return;
  requests_.emit_finish(request, choice, reason);
  if (request.unforked.empty()) return scheduler_.remove(*sequence);
  // The prompt still runs for the other choices: the sequence now stands for the next of them.
  sequence->choice = request.unforked.front();
  request.unforked.erase(request.unforked.begin());
}

void Engine::Impl::complete(Sequence& sequence) {
  if (sequence.state == SequenceState::kFinished) return;  // its scores failed
  scheduler_.complete(sequence);
  Request& request = *sequence.request;
  request.num_scored = std::max(request.num_scored, std::min(request.num_prompt, sequence.num_computed + 1));
  if (!request.prompt_counted && sequence.num_computed >= request.num_prompt) {
    request.prompt_counted = true;
    totals_.prompt_tokens += static_cast<uint64_t>(request.num_prompt);
  }
  if (request.spec.max_tokens == 0 && sequence.pending() == 0) finish_request(request, FinishReason::kLength);
}

// The prompt is in the cache: every other choice continues from the same blocks.
void Engine::Impl::fork_choices(Sequence& leader) {
  Request& request = *leader.request;
  for (const int choice : request.unforked) {
    auto fork = std::make_unique<Sequence>();
    fork->request = &request;
    fork->choice = choice;
    fork->num_prompt = leader.num_prompt;
    fork->num_computed = leader.num_computed;
    fork->tokens.reserve(leader.tokens.capacity());
    fork->tokens = leader.tokens;
    fork->table = kv_.fork(leader.table);
    request.sequences.push_back(std::move(fork));
  }
  request.unforked.clear();
}

// The rows of one choice.
void Engine::Impl::accept(std::span<SampleTask> rows, TimePoint now) {
  const SampleTask& task = rows.front();
  if (task.choice == task.sequence->choice) fork_choices(*task.sequence);
  Sequence* found = task.sequence->request->find(task.choice);
  if (found == nullptr || found->state == SequenceState::kFinished) return;  // its scores failed
  Sequence& sequence = *found;
  const FinishReason reason = take_over(sequence, rows, now);
  if (reason != FinishReason::kNone) {
    scheduler_.remove(sequence);
  } else if (sequence.state == SequenceState::kWaiting) {
    scheduler_.adopt(sequence);  // a new fork
  }
}

// The token of the first row, and that of each further one while the draft before it was right.
FinishReason Engine::Impl::take_over(Sequence& sequence, std::span<SampleTask> rows, TimePoint now) {
  const std::span<const TokenId> drafts = batch_.drafts(rows.front());
  sequence.drop_drafts();
  FinishReason reason = FinishReason::kNone;
  size_t accepted = 0;
  for (;; ++accepted) {
    SampleTask& task = rows[accepted];
    if (task.failed) {
      reason = FinishReason::kError;
      requests_.emit_finish(*sequence.request, sequence.choice, reason);
      break;
    }
    const TokenId token = task.result.token;
    sequence.tokens.push_back(token);
    ++totals_.generation_tokens;
    reason = finish_reason(sequence);
    const bool completes = task.complete && reason != FinishReason::kStop;
    requests_.emit_token(sequence, std::move(task.result), completes ? FinishReason::kNone : reason, now);
    if (completes) {
      reason = FinishReason::kStop;
      requests_.emit_finish(*sequence.request, sequence.choice, reason);
    }
    if (reason != FinishReason::kNone || accepted == drafts.size() || token != drafts[accepted]) break;
  }
  if (drafts.empty()) return reason;
  scheduler_.complete_drafts(sequence);
  sequence.proposer->note_result(static_cast<int>(drafts.size()), static_cast<int>(accepted));
  ++totals_.drafts;
  totals_.draft_tokens += drafts.size();
  totals_.accepted_tokens += accepted;
  return reason;
}

FinishReason Engine::Impl::finish_reason(const Sequence& sequence) const {
  const EngineRequest& spec = sequence.request->spec;
  const auto& stop_ids = spec.sampling.stop_token_ids;
  const bool may_stop = sequence.num_output() > spec.sampling.min_tokens;
  if (may_stop && std::ranges::find(stop_ids, sequence.tokens.back()) != stop_ids.end())
    return FinishReason::kStop;
  const bool full =
      sequence.num_output() >= spec.max_tokens || sequence.num_tokens() >= options.max_model_len;
  return full ? FinishReason::kLength : FinishReason::kNone;
}

Result<void> Engine::Impl::submit(EngineRequest request) {
  PAGODA_TRY(check_request(request, limits_));
  return inbox.submit(std::move(request), clock_.now());
}

void Engine::Impl::start_thread() {
  warmer_.emplace(storage_);
  thread = std::thread([this] { run_until_stopped(); });
}

void Engine::Impl::run_until_stopped() {
  while (inbox.wait(!requests_.empty())) {
    step();
    // While requests run, their threads need the CPUs more.
    if (requests_.empty()) warmer_->reached(kv_.pool().num_touched(), kv_.pool().most_used());
  }
  shut_down();
}

void Engine::Impl::shut_down() {
  receive();
  requests_.for_each([&](Request& request) { finish_request(request, FinishReason::kAborted); });
  publish();
}

void Engine::Impl::check_integrity() const {
  std::vector<const kv::BlockTable*> tables;
  size_t live = 0;
  requests_.for_each([&](const Request& request) {
    for (const auto& sequence : request.sequences) {
      tables.push_back(&sequence->table);
      if (sequence->state == SequenceState::kFinished) {
        PAGODA_CHECK(sequence->table.empty());
      } else {
        ++live;
      }
    }
  });
  PAGODA_CHECK(live == scheduler_.running().size() + scheduler_.waiting().size(), "{} live, {} run, {} wait",
               live, scheduler_.running().size(), scheduler_.waiting().size());
  scheduler_.check_integrity();
  kv_.check_integrity(tables);
}

Engine::Engine(model::Model& model, KvStorage kv, const EngineOptions& options, ComputePool& pool,
               const Clock& clock, EngineObserver observer)
    : impl_(std::make_unique<Impl>(model, std::move(kv), options, pool, clock, std::move(observer))) {}

Engine::~Engine() {
  stop();
}

const EngineOptions& Engine::options() const {
  return impl_->options;
}
Result<void> Engine::submit(EngineRequest request) {
  return impl_->submit(std::move(request));
}
void Engine::abort(RequestId id) {
  impl_->inbox.abort(id, kAllChoices);
}
void Engine::abort(RequestId id, int choice) {
  if (choice >= 0) impl_->inbox.abort(id, choice);
}

EngineStats Engine::stats() const {
  // Requests not taken yet first: one taken in between is then counted twice rather than not at all.
  const int submitted = impl_->inbox.num_submitted();
  EngineStats stats = impl_->snapshot.stats();
  stats.waiting += submitted;
  stats.rejected = impl_->inbox.num_rejected();
  return stats;
}

BlocksSnapshot Engine::debug_blocks() const {
  return impl_->snapshot.blocks();
}
void Engine::begin_drain() {
  impl_->inbox.begin_drain();
}
bool Engine::idle() const {
  return impl_->inbox.idle();
}

void Engine::start() {
  PAGODA_CHECK(!impl_->thread.joinable(), "the engine runs already");
  impl_->start_thread();
}

void Engine::stop() {
  const std::lock_guard lock(impl_->stop_mutex);
  impl_->inbox.request_stop();
  if (impl_->thread.joinable()) {
    impl_->thread.join();
  } else {
    impl_->shut_down();
  }
}

bool Engine::step() {
  return impl_->step();
}
void Engine::check_integrity() const {
  impl_->check_integrity();
}

}  // namespace pagoda::engine
