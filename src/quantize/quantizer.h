// From a checkpoint to a quantised Hugging Face folder, layer by layer.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "base/thread_pool.h"
#include "model/checkpoint.h"
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

// Writes the folder `out`. An error or a cancellation (kCancelled) leaves "<out>.partial", with which the
// same call goes on. `options` have passed check_options.
Result<void> quantize(const model::Checkpoint& checkpoint, const std::string& out, const Options& options,
                      ComputePool& pool, const Hooks& hooks);

}  // namespace pagoda::quantize
