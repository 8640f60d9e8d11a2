// Runs one batch through the model and the sampler.
#pragma once

#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "engine/batch.h"
#include "engine/mask_thread.h"
#include "model/model.h"
#include "sampling/sampler.h"
#include "tensor/aligned_buffer.h"

namespace pagoda::engine {

// Owns the logits of a step and one sampler per compute thread.
class Runner {
 public:
  Runner(model::Model& model, KvStorage& kv, const EngineOptions& options, ComputePool& pool);

  // Fills the results of the batch's tasks. A task that throws is marked as failed; the others are not
  // affected.
  void run(Batch& batch) noexcept;

 private:
  struct Worker {
    sampling::Sampler sampler;
    std::vector<uint32_t> mask;  // of a constraint behind a draft
    std::vector<float> row;      // copy of a row that several choices draw from
  };

  std::span<float> logits(int64_t row);
  void sample(SampleTask& task, Worker& worker) noexcept;
  void sample_constrained(Batch& batch, SampleTask& first, Worker& worker) noexcept;
  void draw(SampleTask& task, Worker& worker, std::span<const uint32_t> mask);
  void fail(SampleTask& task, const std::string& why) noexcept;
  void score(ScoreTask& task) noexcept;

  model::Model& model_;
  KvStorage& kv_;
  ComputePool& pool_;
  const int64_t vocab_size_, stride_, max_rows_;
  AlignedBuffer logits_;
  MaskThread masks_;
  std::vector<Worker> workers_;
};

}  // namespace pagoda::engine
