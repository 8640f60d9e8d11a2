#include "api/http/batch_runner.h"

#include <fmt/format.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "api/http/collecting_writer.h"
#include "base/rng.h"

namespace pagoda::http {
namespace {

using std::chrono::milliseconds;

// Between two looks at an input that is slower than the engine, and before a line is tried again.
constexpr milliseconds kInputWait{20};
constexpr milliseconds kRetryDelay{200};
constexpr milliseconds kAnswerWait{500};

constexpr int kBusy = 503;

}  // namespace

// Outlives the runner while a handler holds a writer.
struct BatchRunner::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::pair<uint64_t, CollectingWriter::Answer>> answers;
  std::unordered_map<uint64_t, std::weak_ptr<CollectingWriter>> writers;
  bool stopping = false;

  bool stopped() {
    const std::lock_guard lock(mutex);
    return stopping;
  }
  void finish(uint64_t key, CollectingWriter::Answer answer) {
    {
      const std::lock_guard lock(mutex);
      answers.emplace_back(key, std::move(answer));
      writers.erase(key);
    }
    changed.notify_all();
  }
};

BatchRunner::BatchRunner(const net::HttpServer& server, BatchRunnerOptions options)
    : server_(server),
      options_(std::move(options)),
      shared_(std::make_shared<Shared>()),
      check_(server, options_.endpoint) {}
BatchRunner::~BatchRunner() = default;

void BatchRunner::stop() {
  std::vector<std::shared_ptr<CollectingWriter>> writers;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stopping = true;
    for (const auto& [key, weak] : shared_->writers) {
      if (auto writer = weak.lock()) writers.push_back(std::move(writer));
    }
  }
  shared_->changed.notify_all();
  for (const auto& writer : writers) writer->close();
}

Result<bool> BatchRunner::run(LineReader& input, AnswerFile& answers, AnswerFile& failures) {
  answers_ = &answers;
  failures_ = &failures;
  for (;;) {
    PAGODA_TRY(write_answers());
    const bool stopped = shared_->stopped();
    if (flights_.size() == retries_.size() && (stopped || (input_ended_ && flights_.empty()))) {
      return !stopped;
    }
    retry_waiting();
    const bool has_place = !stopped && !input_ended_ && flights_.size() < options_.window;
    if (has_place && PAGODA_TRY(take_line(input))) continue;
    std::unique_lock lock(shared_->mutex);
    shared_->changed.wait_for(lock,
                              has_place          ? milliseconds(0)
                              : retries_.empty() ? kAnswerWait
                                                 : kRetryDelay,
                              [&] { return !shared_->answers.empty() || (shared_->stopping && !stopped); });
  }
}

Result<bool> BatchRunner::take_line(LineReader& input) {
  std::string text;
  switch (PAGODA_TRY(input.next(text, kInputWait))) {
    case LineReader::Next::kNotYet:
      return false;
    case LineReader::Next::kEnd:
      input_ended_ = true;
      return true;
    case LineReader::Next::kTooLong:
      PAGODA_TRY(fail_line(input.line_number(), {}, "line_too_long",
                           make_error(ErrorKind::kInvalidArgument, "The line is too long.")));
      return true;
    case LineReader::Next::kLine:
      PAGODA_TRY(start_line(input.line_number(), text));
      return true;
  }
  return false;
}

Result<void> BatchRunner::start_line(int64_t number, const std::string& text) {
  openai::BatchLine line = openai::parse_batch_line(text);
  if (const auto problem = check_.check(line)) return fail_line(number, line, problem->code, problem->error);
  for (const AnswerFile* file : {answers_, failures_}) {
    const auto ok = file->answer(line.custom_id);
    if (!ok) continue;
    ++done_;
    if (!*ok) ++failed_;
    return {};
  }
  const uint64_t key = next_key_++;
  flights_[key] = {number, std::move(line),
                   fmt::format("batch_req_{:016x}{:016x}", random_seed(), random_seed())};
  dispatch(key);
  return {};
}

Result<void> BatchRunner::fail_line(int64_t number, const openai::BatchLine& line, const char* code,
                                    const Error& error) {
  ++done_;
  ++failed_;
  if (options_.on_failure) options_.on_failure(number, error.message);
  if (failures_->has_failure(number)) return {};
  return failures_->append(
      openai::batch_failure_line({.id = fmt::format("batch_req_{:016x}{:016x}", random_seed(), random_seed()),
                                  .custom_id = line.custom_id,
                                  .line = number,
                                  .code = code,
                                  .message = fmt::format("Line {}: {}", number, error.message),
                                  .param = error.param}));
}

void BatchRunner::dispatch(uint64_t key) {
  const Flight& flight = flights_.at(key);
  net::HttpRequest request;
  request.method = "POST";
  request.path = flight.request.url;
  request.headers = {{"Content-Type", "application/json"}};
  request.body = flight.request.body;
  request.remote = "batch";
  request.request_id = flight.id;
  request.background = options_.background;
  auto writer = std::make_shared<CollectingWriter>(
      [shared = shared_, key](CollectingWriter::Answer answer) { shared->finish(key, std::move(answer)); });
  bool stopping = false;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->writers[key] = writer;
    stopping = shared_->stopping;
  }
  if (stopping) return;  // drops the writer, which says so
  server_.dispatch(std::move(request), std::move(writer));
}

void BatchRunner::retry_waiting() {
  if (retries_.empty() || std::chrono::steady_clock::now() < retry_at_ || shared_->stopped()) return;
  for (const uint64_t key : std::exchange(retries_, {})) dispatch(key);
}

Result<void> BatchRunner::write_answers() {
  std::deque<std::pair<uint64_t, CollectingWriter::Answer>> answers;
  {
    const std::lock_guard lock(shared_->mutex);
    answers.swap(shared_->answers);
  }
  const bool stopped = shared_->stopped();
  for (auto& [key, answer] : answers) {
    const auto found = flights_.find(key);
    if (found == flights_.end()) continue;
    if (answer.status == kBusy || (answer.status == 0 && stopped)) {
      retries_.push_back(key);
      retry_at_ = std::chrono::steady_clock::now() + kRetryDelay;
      continue;
    }
    const Flight flight = std::move(found->second);
    flights_.erase(found);
    const bool ok = answer.status >= 200 && answer.status < 300;
    ++done_;
    if (!ok) ++failed_;
    if (!ok && options_.on_failure) options_.on_failure(flight.line, answer.body);
    PAGODA_TRY((ok ? answers_ : failures_)
                   ->append(openai::batch_answer_line({.id = flight.id,
                                                       .custom_id = flight.request.custom_id,
                                                       .request_id = flight.id,
                                                       .status = answer.status == 0 ? 500 : answer.status,
                                                       .body = std::move(answer.body)})));
  }
  return {};
}

}  // namespace pagoda::http
