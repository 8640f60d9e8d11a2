// Vectors from a decoder: the rows behind its final norm, pooled.
#pragma once

#include <memory>
#include <vector>

#include "model/decoder.h"
#include "model/embedder.h"
#include "tensor/kv_storage.h"

namespace pagoda::model {

struct DecoderEmbedderOptions {
  PoolingConfig pooling;
  int64_t step_tokens = 256;   // of one forward step; at most what the decoder was loaded for
  int64_t max_tokens = 0;      // of one sequence
  int64_t batch_tokens = 256;  // of a batch of several sequences
};

// Runs prompts through the decoder in chunks, over a KV cache of its own that holds one batch. The decoder
// must outlive it and serve nothing else meanwhile.
class DecoderEmbedder final : public Embedder {
 public:
  DecoderEmbedder(Decoder& decoder, const DecoderEmbedderOptions& options);

  int64_t width() const override;
  int64_t max_tokens() const override { return options_.max_tokens; }
  int64_t batch_tokens() const override { return options_.batch_tokens; }
  int64_t batch_sequences() const override;
  void embed(std::span<const EmbedTask> batch) noexcept override;
  size_t kv_bytes() const { return kv_.bytes(); }

 private:
  // The tokens of one step that belong to one sequence.
  struct Piece {
    size_t task = 0;
    int64_t first = 0, count = 0;
  };
  void run_step(std::span<const EmbedTask> batch);

  Decoder& decoder_;
  const DecoderEmbedderOptions options_;
  KvStorage kv_;
  std::vector<BlockId> blocks_;  // all of them, in order; a sequence has a run of them
  std::vector<int64_t> first_block_;
  std::vector<Piece> pieces_;
  std::vector<TokenId> tokens_;
  std::vector<kernels::AttentionSequence> sequences_;
  std::vector<int64_t> rows_;
  std::vector<float> hidden_;
  Pooler pooler_;
};

}  // namespace pagoda::model
