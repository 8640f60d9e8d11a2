// Every request from its arrival to its last event: who is live, what happened in this step, who has to be
// told.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "engine/inbox.h"
#include "engine/sequence.h"

namespace pagoda::engine {

// Owns the requests. Events are collected during a step and delivered at its end.
class RequestTable {
 public:
  explicit RequestTable(const EngineObserver& observer) : observer_(observer) {}

  // Null when the id is taken, which is the caller's bug: the newcomer alone is ended, with kError.
  Request* add(EngineRequest request, TimePoint arrived, kv::BlockTable table);
  Request* find(RequestId id);
  bool empty() const { return requests_.empty(); }
  size_t size() const { return requests_.size(); }
  // `visit` must not add or remove requests.
  template <class Visit>
  void for_each(Visit visit) const {
    for (const auto& [id, request] : requests_) visit(*request);
  }

  // The prompt runs for the first time.
  void mark_started(Request& request, TimePoint now);
  // A token of one choice; with a finish reason it is the choice's last event.
  void emit_token(Sequence& sequence, sampling::SampledToken token, FinishReason finish, TimePoint now);
  // The last event of a choice, without a token.
  void emit_finish(Request& request, int choice, FinishReason finish);

  // Hands this step's events to the sinks and forgets the requests that ended. Returns those whose sink
  // threw: they are live and get no more events.
  std::vector<Request*> deliver(TimePoint now);
  // What changed since the last call.
  QueueChange take_queue_change();

 private:
  void emit(Request& request, EngineEvent event);
  void leave_queue(Request& request);

  const EngineObserver& observer_;
  std::unordered_map<RequestId, std::unique_ptr<Request>> requests_;
  std::vector<Request*> with_events_;  // in the order of their first event in this step
  QueueChange queue_change_;
  uint64_t num_arrived_ = 0;
};

}  // namespace pagoda::engine
