#include "engine/request_table.h"

#include <exception>

#include "base/log.h"

namespace pagoda::engine {
namespace {

bool call_sink(const Request& request) noexcept {
  try {
    if (request.spec.sink) request.spec.sink(request.events);
    return true;
  } catch (const std::exception& e) {
    log::error("the event sink of request {} threw: {}", request.spec.id.value, e.what());
  } catch (...) {
    log::error("the event sink of request {} threw", request.spec.id.value);
  }
  return false;
}

std::unique_ptr<Request> make_request(EngineRequest spec, TimePoint arrived, kv::BlockTable table) {
  auto request = std::make_unique<Request>();
  auto first = std::make_unique<Sequence>();
  request->num_prompt = static_cast<int64_t>(spec.prompt.size());
  request->live_choices = spec.n;
  first->request = request.get();
  first->num_prompt = request->num_prompt;
  first->table = std::move(table);
  first->tokens = std::move(spec.prompt);
  first->tokens.reserve(static_cast<size_t>(reserved_tokens(first->num_prompt, spec.max_tokens)));
  for (int choice = 1; choice < spec.n; ++choice) request->unforked.push_back(choice);
  if (spec.prompt_logprobs != -1) {
    request->prompt_scores =
        std::make_shared<std::vector<sampling::SampledToken>>(static_cast<size_t>(request->num_prompt));
    request->num_scored = 1;  // nothing comes before the first token
  }
  request->times = {.arrived = arrived,
                    .scheduled = {},
                    .first_token = {},
                    .finished = {},
                    .prompt_tokens = request->num_prompt,
                    .n = spec.n,
                    .max_tokens = spec.max_tokens,
                    .background = spec.background};
  request->sequences.reserve(static_cast<size_t>(spec.n));
  request->sequences.push_back(std::move(first));
  request->spec = std::move(spec);
  return request;
}

}  // namespace

Request* RequestTable::add(EngineRequest spec, TimePoint arrived, kv::BlockTable table) {
  auto request = make_request(std::move(spec), arrived, std::move(table));
  request->arrival = num_arrived_++;
  const auto [place, is_new] = requests_.try_emplace(request->spec.id, nullptr);
  if (is_new) {
    place->second = std::move(request);
    return place->second.get();
  }
  log::error("request id {} is in use already", request->spec.id.value);
  for (int choice = 0; choice < request->spec.n; ++choice) {
    request->events.push_back({.request = request->spec.id,
                               .choice = choice,
                               .token = {},
                               .finish = FinishReason::kError,
                               .prompt_logprobs = nullptr});
  }
  call_sink(*request);
  leave_queue(*request);
  ++queue_change_.ended;
  return nullptr;
}

Request* RequestTable::find(RequestId id) {
  const auto place = requests_.find(id);
  return place == requests_.end() ? nullptr : place->second.get();
}

void RequestTable::leave_queue(Request& request) {
  if (!request.queued) return;
  request.queued = false;
  QueueSize& left = request.spec.background ? queue_change_.left_background_queue : queue_change_.left_queue;
  ++left.reqs;
  left.tokens += request.num_prompt;
}

void RequestTable::mark_started(Request& request, TimePoint now) {
  if (!request.queued) return;
  leave_queue(request);
  request.times.scheduled = now;
}

void RequestTable::emit_token(Sequence& sequence, sampling::SampledToken token, FinishReason finish,
                              TimePoint now) {
  Request& request = *sequence.request;
  ++request.times.output_tokens;
  if (request.times.output_tokens == 1) request.times.first_token = now;
  if (sequence.num_output() > 1 && !sequence.background() && observer_.on_inter_token) {
    observer_.on_inter_token(to_seconds(now - sequence.last_token_time));
  }
  sequence.last_token_time = now;
  emit(request, {.request = request.spec.id,
                 .choice = sequence.choice,
                 .has_token = true,
                 .token = std::move(token),
                 .finish = finish,
                 .prompt_logprobs = nullptr});
}

void RequestTable::emit_finish(Request& request, int choice, FinishReason finish) {
  emit(request, {.request = request.spec.id,
                 .choice = choice,
                 .token = {},
                 .finish = finish,
                 .prompt_logprobs = nullptr});
}

void RequestTable::emit(Request& request, EngineEvent event) {
  if (request.events.empty()) with_events_.push_back(&request);
  if (!request.first_event_sent) {
    request.first_event_sent = true;
    event.cached_tokens = request.times.cached_tokens;
  }
  if (request.prompt_scores != nullptr && !request.scores_pending()) {
    event.prompt_logprobs = std::move(request.prompt_scores);
  }
  if (event.finish != FinishReason::kNone) {
    --request.live_choices;
    request.times.finish = event.finish;
  }
  request.events.push_back(std::move(event));
}

std::vector<Request*> RequestTable::deliver(TimePoint now) {
  std::vector<Request*> broken;
  for (Request* request : with_events_) {
    const bool delivered = call_sink(*request);
    request->events.clear();
    if (!delivered) request->spec.sink = nullptr;
    if (request->live_choices > 0) {
      if (!delivered) broken.push_back(request);
      continue;
    }
    leave_queue(*request);
    ++queue_change_.ended;
    request->times.finished = now;
    if (observer_.on_request_end) observer_.on_request_end(request->times);
    requests_.erase(request->spec.id);
  }
  with_events_.clear();
  return broken;
}

QueueChange RequestTable::take_queue_change() {
  return std::exchange(queue_change_, {});
}

}  // namespace pagoda::engine
