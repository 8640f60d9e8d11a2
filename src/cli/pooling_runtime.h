// A model made ready to make vectors: an encoder, or a decoder run as one.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/cpu_info.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "cli/flags.h"
#include "cli/runtime.h"
#include "engine/engine.h"
#include "engine/pooling_engine.h"
#include "model/encoder.h"
#include "text/tokenizer.h"

namespace pagoda::cli {

// Whether to serve vectors: the flags say so, or the model can do nothing else. kInvalidArgument when flags
// and model contradict each other.
Result<bool> wants_pooling(const EngineFlags& flags);

// What can be said before the weights are packed. Exactly one of encoder and decoder is there.
struct PoolingPlan {
  std::optional<model::EncoderCheckpoint> encoder;
  std::optional<RunPlan> decoder;
  model::PoolingConfig pooling;
  engine::PoolingOptions options;
  model::WeightPrecision precision = model::WeightPrecision::kNative;
  int64_t max_tokens = 0;    // of one sequence
  int64_t batch_tokens = 0;  // of one pass
  int threads = 1;
  Isa isa = Isa::kScalar;

  const std::string& model_name() const;
  const std::string& format() const;
  std::string architecture() const;
  int64_t vocab_size() const;
};
Result<PoolingPlan> make_pooling_plan(const EngineFlags& flags);

class PoolingRuntime {
 public:
  static Result<std::unique_ptr<PoolingRuntime>> load(
      PoolingPlan plan, const Clock& clock, std::function<void(const engine::PoolingTimes&)> observe);

  const PoolingPlan& plan() const { return plan_; }
  uint64_t weight_bytes() const { return weight_bytes_; }
  engine::PoolingEngine& engine() { return *engine_; }
  std::shared_ptr<const text::Tokenizer> tokenizer() const { return tokenizer_; }
  // An engine that is never started: the service of the routes that only tell, or work on text, wants to have
  // one.
  engine::Engine& idle_engine() { return *idle_engine_; }

 private:
  PoolingRuntime() = default;
  Result<void> load_model();
  void make_idle_engine(const Clock& clock);

  PoolingPlan plan_;
  uint64_t weight_bytes_ = 0;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::unique_ptr<ComputePool> pool_;
  std::unique_ptr<model::Decoder> decoder_;
  std::unique_ptr<model::Embedder> embedder_;
  std::unique_ptr<model::Model> no_model_;
  std::unique_ptr<engine::Engine> idle_engine_;
  std::unique_ptr<engine::PoolingEngine> engine_;
};

}  // namespace pagoda::cli
