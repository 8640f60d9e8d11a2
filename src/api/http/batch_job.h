// One batch on its way through its stages.
#pragma once

#include <atomic>
#include <string>

#include "api/http/batch_runner.h"
#include "api/http/batch_store.h"
#include "base/result.h"
#include "net/http_server.h"

namespace pagoda::http {

// validating -> in_progress -> finalizing -> completed; failed when the input can't be run, and
// cancelling -> cancelled once somebody has set the former. Each stage can be done again, so that a batch
// goes on wherever an earlier process left it.
class BatchJob {
 public:
  // Both must outlive the job. `window` lines are under way at once.
  BatchJob(BatchStore& store, const net::HttpServer& server, const openai::BatchObject& batch, size_t window);

  // Until the batch has ended (true) or interrupt() was called (false). Once. kIo: the disk refused; the
  // batch is where it was, and another job can go on.
  Result<bool> run();

  // --- any thread ---
  void interrupt();
  BatchProgress progress() const { return runner_.progress(); }

 private:
  Result<void> validate(const openai::BatchObject& batch);
  Result<std::vector<openai::BatchError>> find_errors(LineReader& input, const openai::BatchObject& batch,
                                                      int64_t& count);
  Result<void> run_lines(const openai::BatchObject& batch);
  Result<void> finish(openai::BatchObject batch);
  Result<openai::BatchObject> name_results(const openai::BatchObject& batch);
  Result<void> publish(const openai::BatchObject& batch) const;
  Result<void> fail(std::vector<openai::BatchError> errors);
  bool has_input(const openai::BatchObject& batch) const;
  Result<void> fail_input();
  // Moves the batch on unless it isn't at `from` any more.
  Result<openai::BatchObject> move_on(openai::BatchStatus from,
                                      const std::function<void(openai::BatchObject&)>& change);

  BatchStore& store_;
  const net::HttpServer& server_;
  const std::string id_;
  BatchRunner runner_;
  std::atomic<bool> interrupted_{false};
};

}  // namespace pagoda::http
