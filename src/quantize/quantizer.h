// From a checkpoint to a quantised Hugging Face folder, layer by layer.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "base/thread_pool.h"
#include "model/checkpoint.h"
#include "quantize/calibration.h"
#include "quantize/options.h"

namespace pagoda::quantize {

// How the caller watches a run. Both are called between pieces of work of seconds at most.
struct Hooks {
  // `done` of `total` are of equal cost, more or less; `skipped` of them an earlier run had done.
  struct Progress {
    int64_t done = 0, total = 0, skipped = 0;
  };
  std::function<void(const Progress&)> progress;
  std::function<bool()> cancelled;
};

// `samples` are what the calibrated methods look at: at least one of at least one token; empty for others.
struct Job {
  const model::Checkpoint& checkpoint;
  std::string out;
  Options options;
  Samples samples;
};

// Writes the folder `job.out`. An error or a cancellation (kCancelled) leaves "<out>.partial", with which the
// same call goes on. The options have passed check_options.
Result<void> quantize(const Job& job, ComputePool& pool, const Hooks& hooks);

}  // namespace pagoda::quantize
