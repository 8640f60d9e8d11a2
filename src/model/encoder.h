// BERT-type encoders: learned positions, norms behind the blocks, attention to both sides, no cache.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "base/thread_pool.h"
#include "model/embedder.h"
#include "model/loader/bert_checkpoint.h"
#include "model/pack.h"

namespace pagoda::model {

struct EncoderOptions {
  WeightPrecision precision = WeightPrecision::kNative;
  PoolingConfig pooling;
  int64_t batch_tokens = 256;  // of one pass; at least max_tokens
  int64_t max_tokens = 0;      // of one sequence; at most the model's positions
};

class Encoder : public Embedder {
 public:
  virtual size_t weight_bytes() const = 0;
};

// Packs the weights with all threads of `pool`, which must outlive the encoder and runs its kernels.
Result<std::unique_ptr<Encoder>> load_encoder(const EncoderCheckpoint& checkpoint,
                                              const EncoderOptions& options, ComputePool& pool);

}  // namespace pagoda::model
