// A model that says what a script tells it. It keeps the tokens it has seen in the KV cache, as a real model
// keeps what it made of them, so that prefix caching, forks, chunks and preemption have to work for the
// script to go on right.
#pragma once

#include <memory>
#include <vector>

#include "model/model.h"
#include "scripted/script_table.h"

namespace pagoda::scripted {

class ScriptedModel final : public model::Model {
 public:
  ScriptedModel(std::shared_ptr<const ScriptTable> table, int64_t max_positions);

  const model::ModelConfig& config() const override { return config_; }
  KvShape kv_shape() const override;
  int64_t logits_stride() const override;
  void forward(const model::ForwardInput& input, KvStorage& kv, float* logits) noexcept override;

 private:
  std::vector<TokenId> context(const kernels::AttentionSequence& sequence, int64_t length,
                               PagedKvView kv) const;

  std::shared_ptr<const ScriptTable> table_;
  model::ModelConfig config_;
};

}  // namespace pagoda::scripted
