// A model made ready to run: checkpoint, weights, KV cache, engine, tokenizer, template. Owns them all in the
// order in which they depend on each other.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/cpu_info.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "cli/flags.h"
#include "cli/sizing.h"
#include "engine/engine.h"
#include "model/checkpoint.h"
#include "model/decoder.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace pagoda::cli {

// What can be said about a model before its weights are packed.
struct RunPlan {
  model::Checkpoint checkpoint;
  model::DecoderOptions decoder;
  engine::EngineOptions engine;  // num_blocks is set once the weights are packed
  std::optional<uint64_t> kv_bytes;
  uint64_t memory_limit = 0;
  double memory_fraction = 0.9;
  int threads = 1;
  Isa isa = Isa::kScalar;
};

// --kv-cache-dtype, whose spelling the parser has checked.
DType kv_dtype_of(const EngineFlags& flags);

// --threads; 0: all CPUs that the process may use.
Result<int> choose_threads(int asked);

// Opens the checkpoint and checks the flags against it and against the machine.
Result<RunPlan> make_run_plan(const EngineFlags& flags);

// The KV pool that goes with packed weights of this size.
Result<MemoryPlan> plan_kv(const RunPlan& plan, uint64_t weight_bytes, uint64_t scratch_bytes);

class Runtime {
 public:
  // Packs the weights on all threads while the tokenizer loads beside them. The engine is not started.
  static Result<std::unique_ptr<Runtime>> load(RunPlan plan, const std::string& chat_template_path,
                                               engine::EngineObserver observer, const Clock& clock);

  const RunPlan& plan() const { return plan_; }
  const MemoryPlan& memory() const { return memory_; }
  const model::Decoder& model() const { return *model_; }
  // For a caller that runs the model itself, while the engine is not started.
  model::Decoder& model() { return *model_; }
  engine::Engine& engine() { return *engine_; }
  std::shared_ptr<const text::Tokenizer> tokenizer() const { return tokenizer_; }
  // Moves the template out: the service owns it from then on.
  std::optional<text::ChatTemplate> take_chat_template() { return std::move(chat_template_); }

 private:
  Runtime() = default;
  RunPlan plan_;
  MemoryPlan memory_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::optional<text::ChatTemplate> chat_template_;
  std::unique_ptr<ComputePool> pool_;
  std::unique_ptr<model::Decoder> model_;
  std::unique_ptr<engine::Engine> engine_;
};

}  // namespace pagoda::cli
