// Runs the lines of a batch through the routes of the server, many at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "api/http/batch_check.h"
#include "api/http/batch_files.h"
#include "api/openai/batch_line.h"
#include "base/result.h"
#include "net/http_server.h"

namespace pagoda::http {

struct BatchRunnerOptions {
  size_t window = 1;        // lines under way at once
  bool background = false;  // they run when nothing else does
  std::string endpoint;     // the url that every line must have; empty: each its own
  // Of a line without a good answer: its number and what is wrong. On the thread of run().
  std::function<void(int64_t line, const std::string& message)> on_failure;
};

struct BatchProgress {
  int64_t done = 0;    // lines that have an answer or a failure in the output, those of earlier runs included
  int64_t failed = 0;  // of them, those without a good answer
};

// The handlers are those that HTTP requests get, so a line's answer is what the request would have got. A
// line that can't be a request becomes a failure in the output. An answer that says only that the server is
// busy or shutting down is not kept: the line is tried again, here or in the next run.
class BatchRunner {
 public:
  // `server` must outlive the runner; it need not be started.
  BatchRunner(const net::HttpServer& server, BatchRunnerOptions options);
  ~BatchRunner();
  BatchRunner(const BatchRunner&) = delete;
  BatchRunner& operator=(const BatchRunner&) = delete;

  // Until the input ends (true) or stop() was called (false). Once. Good answers go to `answers`, everything
  // else to `failures`, which may be the same file; what they have already is skipped. kIo.
  Result<bool> run(LineReader& input, AnswerFile& answers, AnswerFile& failures);

  // --- any thread ---
  void stop();  // cancels what is under way: it gets no answers
  BatchProgress progress() const { return {done_.load(), failed_.load()}; }

 private:
  struct Shared;
  struct Flight {
    int64_t line = 0;
    openai::BatchLine request;
    std::string id;
  };

  // False when there is nothing to do but to wait.
  Result<bool> take_line(LineReader& input);
  Result<void> start_line(int64_t number, const std::string& text);
  Result<void> fail_line(int64_t number, const openai::BatchLine& line, const char* code, const Error& error);
  void dispatch(uint64_t key);
  Result<void> write_answers();
  void retry_waiting();

  const net::HttpServer& server_;
  const BatchRunnerOptions options_;
  const std::shared_ptr<Shared> shared_;
  AnswerFile* answers_ = nullptr;
  AnswerFile* failures_ = nullptr;
  LineCheck check_;
  std::unordered_map<uint64_t, Flight> flights_;
  std::vector<uint64_t> retries_;
  std::chrono::steady_clock::time_point retry_at_;
  uint64_t next_key_ = 1;
  bool input_ended_ = false;
  std::atomic<int64_t> done_{0}, failed_{0};
};

}  // namespace pagoda::http
