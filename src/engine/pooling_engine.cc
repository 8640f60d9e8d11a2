#include "engine/pooling_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace pagoda::engine {

struct PoolingEngine::Job {
  uint64_t id = 0;
  PoolingRequest request;
  Vectors vectors;
  size_t next = 0;  // sequence to run
  size_t done = 0;
  int64_t tokens = 0;
  bool cancelled = false;
  PoolingTimes times;
};

PoolingEngine::PoolingEngine(model::Embedder& embedder, const PoolingOptions& options, const Clock& clock,
                             std::function<void(const PoolingTimes&)> observe)
    : embedder_(embedder), options_(options), clock_(clock), observe_(std::move(observe)) {}

PoolingEngine::~PoolingEngine() {
  stop();
}

void PoolingEngine::start() {
  PAGODA_CHECK(!thread_.joinable(), "start() is called once");
  thread_ = std::thread([this] { loop(); });
}

Result<uint64_t> PoolingEngine::submit(PoolingRequest request) {
  auto job = std::make_shared<Job>();
  for (const auto& sequence : request.sequences) {
    const auto count = static_cast<int64_t>(sequence.size());
    PAGODA_CHECK(count >= 1 && count <= embedder_.max_tokens(), "{} tokens", count);
    job->tokens += count;
  }
  PAGODA_CHECK(!request.sequences.empty() && request.done != nullptr, "{} sequences",
               request.sequences.size());
  job->vectors.resize(request.sequences.size());
  for (auto& vector : job->vectors) vector.resize(static_cast<size_t>(embedder_.width()));
  job->request = std::move(request);
  job->times.arrived = clock_.now();
  job->times.tokens = job->tokens;
  job->times.background = job->request.background;
  const std::lock_guard lock(mutex_);
  if (draining_) return make_error(ErrorKind::kShuttingDown, "The server is shutting down.");
  Queue& queue = queues_[job->request.background ? 1 : 0];
  PAGODA_TRY(admit(queue, job->tokens));
  job->id = next_id_++;
  queue.tokens += job->tokens;
  const uint64_t id = job->id;
  queue.jobs.push_back(std::move(job));
  wake_.notify_one();
  return id;
}

Result<void> PoolingEngine::admit(const Queue& queue, int64_t tokens) {
  const bool many = static_cast<int64_t>(queue.jobs.size()) >= options_.max_num_queued_reqs;
  const bool long_ones = !queue.jobs.empty() && queue.tokens + tokens > options_.max_num_queued_tokens;
  if (!many && !long_ones) return {};
  ++stats_.rejected;
  return make_error(
      ErrorKind::kOverloaded,
      fmt::format("{} requests of {} tokens wait already; the limits are {} (--max-num-queued-reqs) and {} "
                  "(--max-num-queued-tokens).",
                  queue.jobs.size(), queue.tokens, options_.max_num_queued_reqs,
                  options_.max_num_queued_tokens));
}

void PoolingEngine::cancel(uint64_t id) {
  const std::lock_guard lock(mutex_);
  for (const Queue& queue : queues_) {
    for (const auto& job : queue.jobs) {
      if (job->id == id) job->cancelled = true;
    }
  }
  wake_.notify_one();
}

void PoolingEngine::begin_drain() {
  const std::lock_guard lock(mutex_);
  draining_ = true;
}

void PoolingEngine::stop() {
  {
    const std::lock_guard lock(mutex_);
    draining_ = stopping_ = true;
    wake_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

bool PoolingEngine::idle() const {
  const std::lock_guard lock(mutex_);
  return queues_[0].jobs.empty() && queues_[1].jobs.empty();
}

PoolingStats PoolingEngine::stats() const {
  const std::lock_guard lock(mutex_);
  PoolingStats stats = stats_;
  stats.waiting = static_cast<int64_t>(queues_[0].jobs.size() + queues_[1].jobs.size()) - stats.running;
  return stats;
}

// Under the lock.
std::vector<PoolingEngine::Item> PoolingEngine::next_batch() {
  std::vector<Item> batch;
  take_turns(queues_[queues_[0].jobs.empty() ? 1 : 0].jobs, &batch);
  return batch;
}

// One sequence of each job in turn until nothing fits; what comes next time is rotated to the front.
void PoolingEngine::take_turns(std::deque<std::shared_ptr<Job>>& jobs, std::vector<Item>* batch) {
  int64_t room = embedder_.batch_tokens(), runs = 0;
  size_t idle_turns = 0;
  const auto max_sequences = static_cast<size_t>(embedder_.batch_sequences());
  while (batch->size() < max_sequences && idle_turns < jobs.size()) {
    const std::shared_ptr<Job> job = jobs.front();
    if (job->next < job->request.sequences.size()) {
      const auto count = static_cast<int64_t>(job->request.sequences[job->next].size());
      if (count > room && !batch->empty()) break;
      room -= count;
      if (job->next == job->done) ++runs;
      if (job->next == 0) job->times.started = clock_.now();
      batch->push_back({job, job->next++});
      idle_turns = 0;
    } else {
      ++idle_turns;
    }
    jobs.pop_front();
    jobs.push_back(job);
  }
  stats_.running = runs;
}

void PoolingEngine::run_batch(const std::vector<Item>& batch) {
  std::vector<model::EmbedTask> tasks;
  for (const Item& item : batch) {
    tasks.push_back({item.job->request.sequences[item.sequence], item.job->vectors[item.sequence]});
  }
  embedder_.embed(tasks);
}

// Ends what is complete or cancelled.
void PoolingEngine::settle(const std::vector<Item>& batch) {
  std::vector<std::shared_ptr<Job>> ended;
  {
    const std::lock_guard lock(mutex_);
    stats_.running = 0;
    if (!batch.empty()) ++stats_.batches;
    for (const Item& item : batch) {
      ++item.job->done;
      stats_.tokens += item.job->request.sequences[item.sequence].size();
    }
    const auto over = [&](const std::shared_ptr<Job>& job) {
      const bool ends = stopping_ || job->cancelled || job->done == job->request.sequences.size();
      if (ends) ended.push_back(job);
      return ends;
    };
    for (Queue& queue : queues_) {
      const size_t before = ended.size();
      std::erase_if(queue.jobs, over);
      for (size_t i = before; i < ended.size(); ++i) queue.tokens -= ended[i]->tokens;
    }
  }
  for (const auto& job : ended) {
    if (job->done == job->request.sequences.size()) {
      finish(job, std::move(job->vectors));
    } else if (job->cancelled) {
      finish(job, make_error(ErrorKind::kCancelled, "The client has gone."));
    } else {
      finish(job, make_error(ErrorKind::kShuttingDown, "The server is shutting down."));
    }
  }
}

void PoolingEngine::finish(const std::shared_ptr<Job>& job, Result<Vectors> result) {
  job->times.finished = clock_.now();
  job->times.cancelled = !result;
  if (job->next == 0) job->times.started = job->times.finished;
  if (result && job->request.dimensions > 0) {
    for (auto& vector : *result) {
      vector.resize(static_cast<size_t>(job->request.dimensions));
      model::normalize(vector);
    }
  }
  try {
    if (observe_) observe_(job->times);
    job->request.done(std::move(result));
  } catch (const std::exception& error) {
    log::error("the answer to a pooling request failed: {}", error.what());
  }
}

void PoolingEngine::loop() {
  for (;;) {
    std::vector<Item> batch;
    bool stopping = false;
    {
      std::unique_lock lock(mutex_);
      const auto has_jobs = [](const Queue& queue) { return !queue.jobs.empty(); };
      wake_.wait(lock, [&] { return stopping_ || std::ranges::any_of(queues_, has_jobs); });
      stopping = stopping_;
      const bool cancelled = std::ranges::any_of(queues_, [](const Queue& queue) {
        return std::ranges::any_of(queue.jobs, [](const auto& job) { return job->cancelled; });
      });
      if (!stopping && !cancelled) batch = next_batch();
    }
    if (!batch.empty()) run_batch(batch);
    settle(batch);
    if (stopping) return;
  }
}

}  // namespace pagoda::engine
