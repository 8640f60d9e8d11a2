#include "engine/mask_thread.h"

#include <algorithm>
#include <exception>
#include <system_error>

#include "base/check.h"
#include "base/log.h"

namespace pagoda::engine {

MaskThread::MaskThread(int64_t vocab_size)
    : mask_words_(sampling::mask_words(static_cast<size_t>(vocab_size))) {}

MaskThread::~MaskThread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void MaskThread::start() noexcept {
  try {
    thread_ = std::thread([this] { loop(); });
  } catch (const std::system_error& e) {
    log::warn("masks are filled after the forward pass, as no thread could be started: {}", e.what());
  }
}

void MaskThread::begin(std::span<const SampleTask> tasks) noexcept {
  const auto constraint_of = [](const SampleTask& task) {
    return task.drafts == 0 ? task.sequence->request->constraint(task.choice) : nullptr;
  };
  if (std::ranges::none_of(tasks, [&](const SampleTask& task) { return constraint_of(task) != nullptr; }))
    return;
  if (!thread_.joinable()) start();
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !running_; });
    while (jobs_.size() < tasks.size()) jobs_.emplace_back();
    num_jobs_ = tasks.size();
    for (size_t i = 0; i < tasks.size(); ++i) {
      Job& job = jobs_[i];
      PAGODA_CHECK(job.state.load(std::memory_order_relaxed) == State::kDone, "mask {} was not taken", i);
      job.constraint = constraint_of(tasks[i]);
      if (job.constraint == nullptr) continue;
      job.mask.resize(mask_words_);
      job.state.store(State::kWaiting, std::memory_order_relaxed);
    }
    ++generation_;
  }
  changed_.notify_all();
}

Result<std::span<const uint32_t>> MaskThread::take(size_t index) noexcept {
  Job& job = jobs_[index];
  if (claim(job)) {
    fill(job);
  } else {
    job.state.wait(State::kRunning, std::memory_order_acquire);
  }
  if (!job.filled) return job.filled.error();
  return std::span<const uint32_t>(job.mask);
}

bool MaskThread::claim(Job& job) noexcept {
  State expected = State::kWaiting;
  return job.state.compare_exchange_strong(expected, State::kRunning, std::memory_order_acquire);
}

void MaskThread::fill(Job& job) noexcept {
  try {
    job.filled = job.constraint->fill_mask(job.mask);
  } catch (const std::exception& e) {
    job.filled = make_error(ErrorKind::kInternal, e.what());
  }
  job.state.store(State::kDone, std::memory_order_release);
  job.state.notify_all();
}

void MaskThread::loop() {
  uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || generation_ != seen; });
    if (stop_) return;
    seen = generation_;
    running_ = true;
    lock.unlock();
    for (size_t i = 0; i < num_jobs_; ++i) {
      if (claim(jobs_[i])) fill(jobs_[i]);
    }
    lock.lock();
    running_ = false;
    changed_.notify_all();
  }
}

}  // namespace pagoda::engine
