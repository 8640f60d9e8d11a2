// The parent's end of a worker (eval_worker.h).
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace pagoda::cli {

// One JSON value a line over a stream socket. Owns the descriptor.
class JsonSocket {
 public:
  explicit JsonSocket(int fd) : fd_(fd) {}
  ~JsonSocket();
  JsonSocket(const JsonSocket&) = delete;
  JsonSocket& operator=(const JsonSocket&) = delete;

  // False when the other side has gone.
  bool send(const nlohmann::json& value);
  enum class Got { kValue, kNotYet, kEnd };
  // Waits at most so long; below 0: without end. A line that is no JSON ends the stream.
  Got receive(nlohmann::json& value, int timeout_ms);

 private:
  const int fd_;
  std::string received_;
};

// A running worker; destroying it kills and reaps the process.
class EvalWorker {
 public:
  // `stopped` is asked all the time; when it says true, the call that waits ends with kCancelled.
  // `args` is the command line behind "pagoda eval-worker".
  static Result<std::unique_ptr<EvalWorker>> start(const std::vector<std::string>& args,
                                                   std::function<bool()> stopped);
  ~EvalWorker();
  EvalWorker(const EvalWorker&) = delete;
  EvalWorker& operator=(const EvalWorker&) = delete;

  const nlohmann::json& hello() const { return hello_; }
  // The answer. Errors of the worker, and its death, are errors here.
  Result<nlohmann::json> ask(const nlohmann::json& request);
  Result<void> send(const nlohmann::json& request);
  Result<nlohmann::json> next_answer();
  // Row `index` of the logits that the last answer left, the first `width` of them.
  std::span<const float> logits(int64_t index, int64_t width) const;

 private:
  EvalWorker() = default;
  Error died();

  pid_t pid_ = -1;
  std::unique_ptr<JsonSocket> socket_;
  std::function<bool()> stopped_;
  nlohmann::json hello_;
  int64_t stride_ = 0, rows_ = 0;
  const float* logits_ = nullptr;
};

}  // namespace pagoda::cli
