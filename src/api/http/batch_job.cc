#include "api/http/batch_job.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "api/http/api_state.h"
#include "api/http/batch_check.h"
#include "api/http/disk_files.h"
#include "base/log.h"

namespace pagoda::http {
namespace {

using openai::BatchStatus;

// Further ones are only counted.
constexpr size_t kMaxErrors = 100;

int64_t size_of(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? static_cast<int64_t>(info.st_size) : 0;
}

openai::BatchError line_error(int64_t line, const LineProblem& problem) {
  return {problem.code, fmt::format("Line {}: {}", line, problem.error.message), problem.error.param, line};
}

// What the disk refused can work later; what contradicts itself can't.
bool is_lasting(const Error& error) {
  return error.kind == ErrorKind::kInvalidArgument;
}

struct Answers {
  int64_t ok = 0, failed = 0;
};

// Cuts off a last line that was written in part.
Result<Answers> count_answers(const std::string& path) {
  if (size_of(path) == 0) return Answers{};
  const AnswerFile file = PAGODA_TRY(AnswerFile::open(path));
  return Answers{file.num_ok(), file.num_failed()};
}

}  // namespace

BatchJob::BatchJob(BatchStore& store, const net::HttpServer& server, const openai::BatchObject& batch,
                   size_t window)
    : store_(store),
      server_(server),
      id_(batch.id),
      runner_(server, {.window = window, .background = true, .endpoint = batch.endpoint, .on_failure = {}}) {}

void BatchJob::interrupt() {
  interrupted_.store(true);
  runner_.stop();
}

Result<bool> BatchJob::run() {
  for (;;) {
    const openai::BatchObject batch = PAGODA_TRY(store_.batch(id_));
    if (openai::is_final(batch.status)) return true;
    if (interrupted_.load()) return false;
    switch (batch.status) {
      case BatchStatus::kValidating:
        PAGODA_TRY(validate(batch));
        break;
      case BatchStatus::kInProgress:
        PAGODA_TRY(run_lines(batch));
        break;
      default:
        PAGODA_TRY(finish(batch));
        break;
    }
  }
}

Result<openai::BatchObject> BatchJob::move_on(BatchStatus from,
                                              const std::function<void(openai::BatchObject&)>& change) {
  return store_.update_batch(id_, [&](openai::BatchObject& batch) -> Result<void> {
    if (batch.status == from) change(batch);
    return {};
  });
}

Result<void> BatchJob::fail(std::vector<openai::BatchError> errors) {
  PAGODA_TRY(store_.update_batch(id_, [&](openai::BatchObject& batch) -> Result<void> {
    batch.status = BatchStatus::kFailed;
    batch.failed_at = unix_seconds();
    batch.errors = std::move(errors);
    return {};
  }));
  return {};
}

// Somebody may have changed the folder.
bool BatchJob::has_input(const openai::BatchObject& batch) const {
  const auto file = store_.file(batch.input_file_id);
  return file && size_of(store_.content_path(file->id)) == file->bytes;
}

Result<void> BatchJob::fail_input() {
  return fail({{"file_not_found", "The input file is gone or was changed.", "input_file_id", 0}});
}

Result<std::vector<openai::BatchError>> BatchJob::find_errors(LineReader& input,
                                                              const openai::BatchObject& batch,
                                                              int64_t& count) {
  LineCheck check(server_, batch.endpoint);
  std::vector<openai::BatchError> errors;
  size_t more = 0;
  std::string line;
  for (;;) {
    const auto next = PAGODA_TRY(input.next(line, std::chrono::milliseconds(0)));
    if (next == LineReader::Next::kEnd || interrupted_.load()) break;
    if (next == LineReader::Next::kNotYet) continue;
    if (++count > kMaxBatchLines) {
      return std::vector<openai::BatchError>{
          {"too_many_lines", fmt::format("The file has more than {} lines.", kMaxBatchLines), "", 0}};
    }
    std::optional<LineProblem> problem;
    if (next == LineReader::Next::kTooLong) {
      problem = {"line_too_long",
                 make_error(ErrorKind::kInvalidArgument,
                            fmt::format("The line has more than {} bytes.", kMaxBatchLineBytes))};
    } else {
      problem = check.check(openai::parse_batch_line(line));
    }
    if (!problem) continue;
    if (errors.size() == kMaxErrors) {
      ++more;
    } else {
      errors.push_back(line_error(input.line_number(), *problem));
    }
  }
  if (more > 0) errors.push_back({"more_errors", fmt::format("{} further lines are wrong.", more), "", 0});
  if (count == 0) errors.push_back({"empty_file", "The file has no lines.", "input_file_id", 0});
  return errors;
}

Result<void> BatchJob::validate(const openai::BatchObject& batch) {
  if (!has_input(batch)) return fail_input();
  const std::string path = store_.content_path(batch.input_file_id);
  const net::UniqueFd fd = PAGODA_TRY(open_for_reading(path));
  LineReader reader(fd.get(), kMaxBatchLineBytes);
  int64_t count = 0;
  auto errors = PAGODA_TRY(find_errors(reader, batch, count));
  if (interrupted_.load()) return {};
  if (!errors.empty()) return fail(std::move(errors));
  PAGODA_TRY(move_on(BatchStatus::kValidating, [&](openai::BatchObject& changed) {
    changed.status = BatchStatus::kInProgress;
    changed.in_progress_at = unix_seconds();
    changed.total = count;
  }));
  return {};
}

Result<void> BatchJob::run_lines(const openai::BatchObject& batch) {
  if (!has_input(batch)) return fail_input();
  const std::string path = store_.content_path(batch.input_file_id);
  const net::UniqueFd fd = PAGODA_TRY(open_for_reading(path));
  LineReader reader(fd.get(), kMaxBatchLineBytes);
  auto answers = AnswerFile::open(store_.output_path(id_));
  auto failures = AnswerFile::open(store_.errors_path(id_));
  for (const auto* file : {&answers, &failures}) {
    if (*file) continue;
    if (!is_lasting(file->error())) return file->error();
    log::error("{}: {}", id_, file->error().message);
    return fail({{"server_error", "The stored answers of this batch are damaged.", "", 0}});
  }
  const auto ended = runner_.run(reader, *answers, *failures);
  if (!ended) {
    runner_.stop();  // nobody would write the answers of what is under way
    return ended.error();
  }
  if (!*ended) return {};
  PAGODA_TRY(move_on(BatchStatus::kInProgress, [](openai::BatchObject& changed) {
    changed.status = BatchStatus::kFinalizing;
    changed.finalizing_at = unix_seconds();
  }));
  return {};
}

// Counts the answers and gives their files ids, which are on the disk before any file has them.
Result<openai::BatchObject> BatchJob::name_results(const openai::BatchObject& batch) {
  const Answers good = PAGODA_TRY(count_answers(store_.output_path(id_)));
  const Answers bad = PAGODA_TRY(count_answers(store_.errors_path(id_)));
  const std::string output_id = good.ok + good.failed > 0 ? store_.new_file_id() : "";
  const std::string error_id = bad.ok + bad.failed > 0 ? store_.new_file_id() : "";
  return move_on(batch.status, [&](openai::BatchObject& changed) {
    changed.completed = good.ok + bad.ok;
    changed.failed = good.failed + bad.failed;
    changed.output_file_id = output_id;
    changed.error_file_id = error_id;
  });
}

Result<void> BatchJob::publish(const openai::BatchObject& batch) const {
  const auto adopt = [&](const std::string& path, const std::string& id, const char* ending) -> Result<void> {
    if (id.empty()) {
      ::unlink(path.c_str());
      return {};
    }
    openai::FileObject file;
    file.id = id;
    file.filename = id_ + ending;
    file.purpose = "batch_output";
    file.created_at = unix_seconds();
    return store_.adopt_file(path, std::move(file));
  };
  PAGODA_TRY(adopt(store_.output_path(id_), batch.output_file_id, "_output.jsonl"));
  return adopt(store_.errors_path(id_), batch.error_file_id, "_error.jsonl");
}

Result<void> BatchJob::finish(openai::BatchObject batch) {
  if (batch.output_file_id.empty() && batch.error_file_id.empty()) {
    auto named = name_results(batch);
    if (!named && is_lasting(named.error())) {
      log::error("{}: {}", id_, named.error().message);
      return fail({{"server_error", "The stored answers of this batch are damaged.", "", 0}});
    }
    batch = PAGODA_TRY(std::move(named));
  }
  PAGODA_TRY(publish(batch));
  PAGODA_TRY(store_.update_batch(id_, [](openai::BatchObject& changed) -> Result<void> {
    const bool cancelled = changed.status == BatchStatus::kCancelling;
    changed.status = cancelled ? BatchStatus::kCancelled : BatchStatus::kCompleted;
    (cancelled ? changed.cancelled_at : changed.completed_at) = unix_seconds();
    return {};
  }));
  return {};
}

}  // namespace pagoda::http
