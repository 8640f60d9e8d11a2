// Runs a checkpoint without engine or server: forward passes over one sequence, for comparison with reference
// logits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/cpu_info.h"
#include "base/thread_pool.h"
#include "model/checkpoint.h"
#include "model/decoder.h"
#include "model/pack.h"
#include "tensor/kv_storage.h"

namespace pagoda::testing_support {

struct HarnessOptions {
  model::WeightPrecision precision = model::WeightPrecision::kFloat32;
  DType kv_dtype = DType::kF32;
  model::ActivationPrecision activation_precision = model::ActivationPrecision::kInt8;
  std::string quantization = "auto";  // as in --quantization
  int64_t max_tokens = 256;           // of one forward step, and as many logit rows
  int64_t max_context = 512;
};

// The exact configuration (--dtype float32) and the default one.
inline HarnessOptions exact_options() {
  return {};
}
inline HarnessOptions native_options() {
  HarnessOptions options;
  options.precision = model::WeightPrecision::kNative;
  options.kv_dtype = DType::kBF16;
  return options;
}

class ModelHarness {
 public:
  // Throws std::runtime_error with the loader's message.
  ModelHarness(const std::filesystem::path& checkpoint, const HarnessOptions& options);

  int64_t vocab_size() const { return model_->config().vocab_size; }
  // Feeds ids to the sequence (starting a new one if `restart`), in steps of max_tokens; logits of every new
  // position, [ids.size(), vocab_size].
  std::vector<float> logits(const std::vector<int32_t>& ids, bool restart = true);
  // The last position only.
  std::vector<float> last_logits(const std::vector<int32_t>& ids, bool restart = true);
  model::Decoder& model() { return *model_; }

 private:
  std::vector<float> run(const std::vector<int32_t>& ids, bool restart, bool all_rows);
  ComputePool pool_;
  std::unique_ptr<model::Decoder> model_;
  KvStorage kv_;
  std::vector<BlockId> table_;
  int64_t max_tokens_ = 0, position_ = 0;
};

// Log-softmax of one row, in double.
std::vector<double> log_softmax(const float* row, int64_t size);
int32_t argmax_of(const float* row, int64_t size);

// Every ISA tier of this CPU, for parameterised tests: set_isa runs in the constructor.
class IsaScope {
 public:
  explicit IsaScope(Isa isa);
  ~IsaScope();
};

}  // namespace pagoda::testing_support
