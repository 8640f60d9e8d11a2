// From a checkpoint to a GGUF file, tensor by tensor.
#pragma once

#include <string>

#include "base/result.h"
#include "base/thread_pool.h"
#include "model/checkpoint.h"
#include "quantize/gguf/ggml_types.h"
#include "quantize/quantizer.h"

namespace pagoda::quantize {

struct GgufJob {
  const model::Checkpoint& checkpoint;
  std::string out;
  GgmlType type = GgmlType::kQ8_0;
};

// Writes the file `job.out`, which must not be there yet. An error or a cancellation (kCancelled) leaves
// nothing. Keys of a GGUF file are copied but for those that say how it is quantised; a folder's are made.
// kUnsupportedModel for a folder that the format has no words for.
Result<void> write_gguf(const GgufJob& job, ComputePool& pool, const Hooks& hooks);

}  // namespace pagoda::quantize
