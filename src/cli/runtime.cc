#include "cli/runtime.h"

#include <fmt/format.h>

#include <fstream>
#include <future>
#include <iterator>

#include "base/resource_limits.h"
#include "cli/speculative_config.h"
#include "kernels/isa.h"
#include "model/packed_cache.h"

namespace pagoda::cli {
namespace {

Result<std::string> read_text_file(const std::string& path, const char* flag) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return make_error(ErrorKind::kIo, fmt::format("{}: cannot read {}", flag, path), flag);
  return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

Result<int64_t> choose_max_model_len(const std::string& asked, const model::ModelConfig& config) {
  if (asked.empty()) return config.max_positions;
  const int64_t value = PAGODA_TRY(parse_count(asked, "--max-model-len"));
  if (value > config.max_positions) {
    return make_error(ErrorKind::kInvalidArgument,
                      fmt::format("--max-model-len is {}, but the model was made for {} positions", value,
                                  config.max_positions),
                      "--max-model-len");
  }
  return value;
}

// Rounding all activations to 8 bits costs a small model visibly (model/wide_groups.h).
model::ActivationPrecision choose_activation_precision(const std::string& asked,
                                                       const model::ModelConfig& config) {
  constexpr int64_t kSmallHiddenSize = 1024;
  if (asked == "int16") return model::ActivationPrecision::kInt16;
  if (asked == "mixed") return model::ActivationPrecision::kMixed;
  if (asked == "int8") return model::ActivationPrecision::kInt8;
  return config.hidden_size <= kSmallHiddenSize ? model::ActivationPrecision::kMixed
                                                : model::ActivationPrecision::kInt8;
}

Result<DType> choose_kv_dtype(const EngineFlags& flags, int head_dim) {
  const DType type = kv_dtype_of(flags);
  if (type == DType::kI8 && head_dim > kMaxInt8HeadDim) {
    return make_error(
        ErrorKind::kInvalidArgument,
        fmt::format("--kv-cache-dtype is {}, but the model's heads have {} dimensions, more than {}",
                    flags.kv_cache_dtype, head_dim, kMaxInt8HeadDim),
        "--kv-cache-dtype");
  }
  return type;
}

Result<engine::EngineOptions> engine_options(const EngineFlags& flags, int64_t max_model_len) {
  engine::EngineOptions options;
  options.max_model_len = max_model_len;
  options.max_num_seqs = flags.max_num_seqs;
  options.max_num_batched_tokens = flags.max_num_batched_tokens;
  options.long_prefill_token_threshold = flags.long_prefill_token_threshold;
  options.itl_target_ms = flags.itl_target_ms;
  options.enable_prefix_caching = flags.enable_prefix_caching;
  options.max_num_queued_reqs = flags.max_num_queued_reqs;
  options.max_num_queued_tokens = flags.max_num_queued_tokens;
  options.policy = flags.scheduling_policy == "priority" ? engine::EngineOptions::Policy::kPriority
                                                         : engine::EngineOptions::Policy::kFcfs;
  options.speculation = PAGODA_TRY(parse_speculative_config(flags.speculative_config));
  return options;
}

struct LoadedText {
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::optional<text::ChatTemplate> chat_template;
};

Result<LoadedText> load_text(const model::Checkpoint& checkpoint, const std::string& chat_template_path) {
  if (checkpoint.tokenizer_json.empty()) {
    return make_error(
        ErrorKind::kUnsupportedModel,
        fmt::format("{} has no tokenizer (tokenizer.json, or a vocabulary in the GGUF)", checkpoint.path));
  }
  LoadedText text;
  text.tokenizer = PAGODA_TRY(text::load_tokenizer(checkpoint.tokenizer_json));
  std::string source = checkpoint.chat_template;
  if (!chat_template_path.empty()) source = PAGODA_TRY(read_text_file(chat_template_path, "--chat-template"));
  if (!source.empty()) text.chat_template = PAGODA_TRY(text::ChatTemplate::compile(source));
  return text;
}

// In a small model a float head is more than half of what a step reads beside 4-bit layers. Rounded to 8 bits
// it changes KL and perplexity in the fourth digit (figures in bench/README.md).
bool wants_rounded_head(const EngineFlags& flags, const model::Checkpoint& checkpoint) {
  if (flags.head_dtype != "auto") return flags.head_dtype == "int8";
  return flags.dtype != "float32" && !checkpoint.quantization.empty();
}

}  // namespace

DType kv_dtype_of(const EngineFlags& flags) {
  const std::string& name = flags.kv_cache_dtype;
  if (name == "int8" || name == "int8_per_token_head") return DType::kI8;  // the second is vLLM's name
  if (name == "float16" || name == "fp16") return DType::kF16;
  if (name == "float32" || (name == "auto" && flags.dtype == "float32")) return DType::kF32;
  return DType::kBF16;
}

Result<int> choose_threads(int asked) {
  const int available = read_resource_limits().cpus;
  if (asked > available) {
    return make_error(
        ErrorKind::kInvalidArgument,
        fmt::format("--threads is {}, but this process may use {} CPUs (affinity and cgroup quota)", asked,
                    available),
        "--threads");
  }
  return asked == 0 ? available : asked;
}

Result<RunPlan> make_run_plan(const EngineFlags& flags) {
  RunPlan plan;
  plan.isa = PAGODA_TRY(choose_isa());
  plan.threads = PAGODA_TRY(choose_threads(flags.threads));
  if (!flags.kv_cache_memory_bytes.empty()) {
    plan.kv_bytes = static_cast<uint64_t>(
        PAGODA_TRY(parse_count(flags.kv_cache_memory_bytes, "--kv-cache-memory-bytes")));
  }
  plan.memory_limit = read_resource_limits().memory_bytes;
  plan.memory_fraction = flags.memory_fraction;
  if (flags.max_num_batched_tokens < flags.max_num_seqs) {
    return make_error(
        ErrorKind::kInvalidArgument,
        fmt::format("--max-num-batched-tokens is {}, but must be at least --max-num-seqs ({}): every "
                    "running sequence takes one token of a step",
                    flags.max_num_batched_tokens, flags.max_num_seqs),
        "--max-num-batched-tokens");
  }
  plan.checkpoint = PAGODA_TRY(model::open_checkpoint(flags.model, flags.quantization));
  if (wants_rounded_head(flags, plan.checkpoint)) model::round_head(plan.checkpoint);
  const int64_t max_model_len = PAGODA_TRY(choose_max_model_len(flags.max_model_len, plan.checkpoint.config));
  plan.engine = PAGODA_TRY(engine_options(flags, max_model_len));
  plan.decoder.precision =
      flags.dtype == "float32" ? model::WeightPrecision::kFloat32 : model::WeightPrecision::kNative;
  plan.decoder.activation_precision =
      choose_activation_precision(flags.activation_precision, plan.checkpoint.config);
  plan.checkpoint.packed_cache =
      PAGODA_TRY(model::packed_cache_path(flags.packed_cache, plan.checkpoint, plan.decoder.precision));
  plan.decoder.kv_dtype = PAGODA_TRY(choose_kv_dtype(flags, plan.checkpoint.config.head_dim));
  plan.decoder.max_tokens = flags.max_num_batched_tokens;
  plan.decoder.max_logit_rows = engine::max_logit_rows(plan.engine);
  plan.decoder.max_context = max_model_len;
  return plan;
}

Result<MemoryPlan> plan_kv(const RunPlan& plan, uint64_t weight_bytes, uint64_t scratch_bytes) {
  const model::ModelConfig& config = plan.checkpoint.config;
  MemoryRequest request;
  request.memory_limit = plan.memory_limit;
  request.memory_fraction = plan.memory_fraction;
  request.weight_bytes = weight_bytes;
  request.scratch_bytes = scratch_bytes;
  request.kv_bytes = plan.kv_bytes;
  request.max_model_len = plan.engine.max_model_len;
  request.max_num_seqs = plan.engine.max_num_seqs;
  request.kv_shape = {config.num_layers, config.num_kv_heads, config.head_dim, plan.decoder.kv_dtype};
  return plan_memory(request);
}

Result<std::unique_ptr<Runtime>> Runtime::load(RunPlan plan, const std::string& chat_template_path,
                                               engine::EngineObserver observer, const Clock& clock) {
  std::unique_ptr<Runtime> runtime(new Runtime());
  runtime->plan_ = std::move(plan);
  RunPlan& p = runtime->plan_;
  kernels::set_isa(p.isa);
  auto text_future =
      std::async(std::launch::async, [&] { return load_text(p.checkpoint, chat_template_path); });
  runtime->pool_ = std::make_unique<ComputePool>(p.threads);
  auto model = model::load_decoder(p.checkpoint, p.decoder, *runtime->pool_);
  auto text = text_future.get();  // before any return: the thread uses the plan
  runtime->model_ = PAGODA_TRY(std::move(model));
  LoadedText loaded = PAGODA_TRY(std::move(text));
  runtime->tokenizer_ = std::move(loaded.tokenizer);
  runtime->chat_template_ = std::move(loaded.chat_template);
  p.checkpoint.tensors.reset();  // unmaps the file: everything is packed
  runtime->memory_ =
      PAGODA_TRY(plan_kv(p, runtime->model_->weight_bytes(), runtime->model_->scratch_bytes()));
  p.engine.num_blocks = runtime->memory_.num_blocks;
  KvStorage kv(runtime->model_->kv_shape(), p.engine.num_blocks);
  runtime->engine_ = std::make_unique<engine::Engine>(*runtime->model_, std::move(kv), p.engine,
                                                      *runtime->pool_, clock, std::move(observer));
  return runtime;
}

}  // namespace pagoda::cli
