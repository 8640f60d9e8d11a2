#include "engine/inbox.h"

#include <fmt/format.h>

#include "base/check.h"

namespace pagoda::engine {
namespace {

void shorten(QueueSize& queue, const QueueSize& left) {
  queue.reqs -= left.reqs;
  queue.tokens -= left.tokens;
  PAGODA_CHECK(queue.reqs >= 0 && queue.tokens >= 0, "{} requests, {} tokens", queue.reqs, queue.tokens);
}

}  // namespace

Inbox::Inbox(const EngineOptions& options)
    : max_reqs_(options.max_num_queued_reqs), max_tokens_(options.max_num_queued_tokens) {}

// Under the lock.
void Inbox::push(Command command) {
  commands_.push_back(std::move(command));
  has_commands_.store(true, std::memory_order_release);
}

Result<void> Inbox::submit(EngineRequest request, TimePoint now) {
  const auto num_tokens = static_cast<int64_t>(request.prompt.size());
  {
    const std::lock_guard lock(mutex_);
    if (draining_) return make_error(ErrorKind::kShuttingDown, "the server is shutting down");
    QueueSize& queued = request.background ? queued_background_ : queued_;
    if (queued.reqs >= max_reqs_) {
      ++rejected_;
      return make_error(ErrorKind::kOverloaded, fmt::format("{} requests wait already; the limit is {} "
                                                            "(--max-num-queued-reqs)",
                                                            queued.reqs, max_reqs_));
    }
    if (queued.reqs > 0 && queued.tokens + num_tokens > max_tokens_) {
      ++rejected_;
      return make_error(ErrorKind::kOverloaded,
                        fmt::format("{} prompt tokens wait already, {} more would pass the limit of {} "
                                    "(--max-num-queued-tokens)",
                                    queued.tokens, num_tokens, max_tokens_));
    }
    ++queued.reqs;
    queued.tokens += num_tokens;
    ++live_reqs_;
    ++num_submitted_;
    const RequestId id = request.id;
    push({.request = std::move(request), .arrived = now, .id = id});
  }
  wake_.notify_one();
  return {};
}

void Inbox::abort(RequestId id, int choice) {
  {
    const std::lock_guard lock(mutex_);
    if (live_reqs_ == 0) return;  // nothing that could be meant
    push({.request = std::nullopt, .arrived = {}, .id = id, .choice = choice});
  }
  wake_.notify_one();
}

void Inbox::begin_drain() {
  const std::lock_guard lock(mutex_);
  draining_ = true;
}

void Inbox::request_stop() {
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
    stopping_ = true;
  }
  wake_.notify_one();
}

bool Inbox::idle() const {
  const std::lock_guard lock(mutex_);
  return live_reqs_ == 0;
}

uint64_t Inbox::num_rejected() const {
  const std::lock_guard lock(mutex_);
  return rejected_;
}

int Inbox::num_submitted() const {
  const std::lock_guard lock(mutex_);
  return num_submitted_;
}

bool Inbox::wait(bool has_work) {
  if (!has_work) {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] { return stopping_ || !commands_.empty(); });
  }
  return !stopping_;
}

void Inbox::take(std::vector<Command>& commands) {
  PAGODA_CHECK(commands.empty());
  if (!has_commands_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(mutex_);
  commands.swap(commands_);
  has_commands_.store(false, std::memory_order_relaxed);
  num_submitted_ = 0;
}

void Inbox::settle(const QueueChange& change) {
  if (change == QueueChange{}) return;
  const std::lock_guard lock(mutex_);
  shorten(queued_, change.left_queue);
  shorten(queued_background_, change.left_background_queue);
  live_reqs_ -= change.ended;
  PAGODA_CHECK(live_reqs_ >= 0, "{} live requests", live_reqs_);
}

}  // namespace pagoda::engine
