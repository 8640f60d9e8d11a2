#include "api/http/batch_manager.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "api/http/api_state.h"
#include "api/http/batch_check.h"
#include "base/check.h"
#include "base/log.h"

namespace pagoda::http {
namespace {

using openai::BatchStatus;

constexpr int kLowestPriority = 19;

Error invalid(std::string message, const char* param) {
  return make_error(ErrorKind::kInvalidArgument, std::move(message), param);
}

// A bug in a batch must not end the server.
Result<bool> run_job(BatchJob& job) {
  try {
    return job.run();
  } catch (const std::exception& failure) {
    return make_error(ErrorKind::kInternal, failure.what());
  }
}

}  // namespace

void BatchManager::start(size_t window) {
  PAGODA_CHECK(!thread_.joinable(), "start() is called once");
  window_ = std::max<size_t>(1, window);
  thread_ = std::thread([this] { loop(); });
}

void BatchManager::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (current_ != nullptr) current_->interrupt();
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void BatchManager::loop() {
  // Of this thread alone, as Linux has it. A refusal changes nothing but a little time.
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kLowestPriority);
  while (const auto job = next_job()) {
    const auto ended = run_job(*job);
    const std::lock_guard lock(mutex_);
    if (!ended) {
      log::error("{} is tried again in {} ms: {}", current_id_, retry_delay_.count(), ended.error().message);
      delayed_[current_id_] = {std::chrono::steady_clock::now() + retry_delay_, job->progress()};
    }
    current_.reset();
    current_id_.clear();
  }
}

std::optional<openai::BatchObject> BatchManager::pick(std::optional<Time>& wake) const {
  const Time now = std::chrono::steady_clock::now();
  for (const std::string& id : store_.unfinished_batches()) {
    const auto delay = delayed_.find(id);
    if (delay != delayed_.end() && delay->second.until > now) {
      wake = std::min(wake.value_or(delay->second.until), delay->second.until);
      continue;
    }
    if (auto batch = store_.batch(id)) return *std::move(batch);
  }
  return std::nullopt;
}

std::shared_ptr<BatchJob> BatchManager::next_job() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    std::optional<Time> wake;
    if (const auto batch = pick(wake)) {
      delayed_.erase(batch->id);
      current_id_ = batch->id;
      current_ = std::make_shared<BatchJob>(store_, server_, *batch, window_);
      return current_;
    }
    if (wake) {
      changed_.wait_until(lock, *wake);
    } else {
      changed_.wait(lock);
    }
  }
  return nullptr;
}

Result<openai::BatchObject> BatchManager::create(const openai::CreateBatchRequest& request) {
  if (!can_batch(server_, request.endpoint)) {
    return invalid("endpoint must be the path of a route that batches can use, as /v1/chat/completions.",
                   "endpoint");
  }
  if (const auto file = store_.file(request.input_file_id); file && file->purpose != "batch") {
    return invalid(fmt::format("The purpose of the file is '{}', but must be 'batch'.", file->purpose),
                   "input_file_id");
  }
  openai::BatchObject batch;
  batch.endpoint = request.endpoint;
  batch.input_file_id = request.input_file_id;
  batch.completion_window = request.completion_window;
  batch.metadata = request.metadata;
  batch.created_at = unix_seconds();
  batch = PAGODA_TRY(store_.add_batch(std::move(batch)));
  // Under the lock, so that it isn't missed between a look and a wait.
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
  return batch;
}

Result<openai::BatchObject> BatchManager::cancel(const std::string& id) {
  const std::lock_guard lock(mutex_);
  auto batch = PAGODA_TRY(store_.update_batch(id, [](openai::BatchObject& changed) -> Result<void> {
    if (changed.status == BatchStatus::kCancelling || changed.status == BatchStatus::kCancelled) return {};
    if (changed.status == BatchStatus::kFinalizing || openai::is_final(changed.status)) {
      return invalid(fmt::format("The batch '{}' is {} and can't be cancelled.", changed.id,
                                 openai::batch_status_name(changed.status)),
                     "id");
    }
    changed.status = BatchStatus::kCancelling;
    changed.cancelling_at = unix_seconds();
    return {};
  }));
  if (id == current_id_) {
    current_->interrupt();
    return batch;
  }
  // It waits for its turn, which may be hours away, and only its files are to be closed.
  if (batch.status == BatchStatus::kCancelling) {
    BatchJob job(store_, server_, batch, 1);
    if (const auto ended = run_job(job); !ended) log::error("{}: {}", id, ended.error().message);
    changed_.notify_all();
  }
  return store_.batch(id);
}

openai::BatchObject BatchManager::view(openai::BatchObject batch) const {
  if (openai::is_final(batch.status)) return batch;
  batch.output_file_id.clear();
  batch.error_file_id.clear();
  const std::lock_guard lock(mutex_);
  BatchProgress progress;
  if (batch.id == current_id_) {
    progress = current_->progress();
  } else if (const auto delay = delayed_.find(batch.id); delay != delayed_.end()) {
    progress = delay->second.progress;
  }
  // Once the answers are counted, the batch itself has the numbers.
  batch.failed = std::max(batch.failed, progress.failed);
  batch.completed = std::max(batch.completed, progress.done - progress.failed);
  return batch;
}

}  // namespace pagoda::http
