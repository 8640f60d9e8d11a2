#include "cli/pooling_runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/resource_limits.h"
#include "cli/sizing.h"
#include "kernels/isa.h"
#include "model/decoder_embedder.h"
#include "model/loader/sentence_files.h"

namespace pagoda::cli {
namespace {

// Nobody runs it; it only has the shape of a model.
class NoModel final : public model::Model {
 public:
  explicit NoModel(int64_t vocab_size) { config_.vocab_size = vocab_size; }
  const model::ModelConfig& config() const override { return config_; }
  KvShape kv_shape() const override { return {1, 1, 2, DType::kBF16}; }
  int64_t logits_stride() const override { return config_.vocab_size; }
  void forward(const model::ForwardInput&, KvStorage&, float*) noexcept override {}

 private:
  model::ModelConfig config_;
};

Error wrong_flag(const char* flag, std::string message) {
  return make_error(ErrorKind::kInvalidArgument, std::move(message), flag);
}

Result<int64_t> choose_max_tokens(const EngineFlags& flags, const model::EncoderCheckpoint& checkpoint) {
  if (flags.max_model_len.empty()) return checkpoint.max_tokens;
  const int64_t value = PAGODA_TRY(parse_count(flags.max_model_len, "--max-model-len"));
  if (value < 1 || value > checkpoint.config.max_positions) {
    return wrong_flag("--max-model-len", fmt::format("--max-model-len is {}, but the model has {} positions",
                                                     value, checkpoint.config.max_positions));
  }
  return value;
}

// The flag, else the model's files, else the usual way of its kind.
Result<model::PoolingConfig> choose_pooling(const EngineFlags& flags, const model::SentenceFiles& files,
                                            model::Pooling usual) {
  model::PoolingConfig config;
  config.pooling = files.pooling.value_or(usual);
  config.normalize = files.normalize.value_or(true);
  if (flags.pooling_type == "auto") return config;
  const auto pooling = model::pooling_from_name(flags.pooling_type);
  if (!pooling) {
    return wrong_flag(
        "--pooling-type",
        fmt::format("--pooling-type is {}; auto, last, mean and cls are known", flags.pooling_type));
  }
  config.pooling = *pooling;
  return config;
}

Result<void> plan_encoder(const EngineFlags& flags, PoolingPlan& plan) {
  if (flags.quantization != "auto") {
    return wrong_flag("--quantization",
                      fmt::format("--quantization is {}, but {} is an encoder, which runs as "
                                  "it is stored",
                                  flags.quantization, flags.model));
  }
  if (flags.head_dtype == "int8") {
    return wrong_flag("--head-dtype", fmt::format("--head-dtype is int8, but {} is an encoder, which runs as "
                                                  "it is stored",
                                                  flags.model));
  }
  plan.encoder = PAGODA_TRY(model::open_encoder_checkpoint(flags.model));
  plan.isa = PAGODA_TRY(choose_isa());
  const int available = read_resource_limits().cpus;
  if (flags.threads > available) {
    return wrong_flag("--threads",
                      fmt::format("--threads is {}, but this process may use {} CPUs (affinity and "
                                  "cgroup quota)",
                                  flags.threads, available));
  }
  plan.threads = flags.threads == 0 ? available : flags.threads;
  plan.max_tokens = PAGODA_TRY(choose_max_tokens(flags, *plan.encoder));
  model::SentenceFiles files;
  files.pooling = plan.encoder->pooling.pooling;
  files.normalize = plan.encoder->pooling.normalize;
  plan.pooling = PAGODA_TRY(choose_pooling(flags, files, model::Pooling::kMean));
  return {};
}

Result<void> plan_decoder(const EngineFlags& flags, PoolingPlan& plan) {
  plan.decoder = PAGODA_TRY(make_run_plan(flags));
  plan.isa = plan.decoder->isa;
  plan.threads = plan.decoder->threads;
  const auto files = PAGODA_TRY(model::read_sentence_files(flags.model));
  plan.pooling = PAGODA_TRY(choose_pooling(flags, files, model::Pooling::kLast));
  plan.max_tokens = plan.decoder->engine.max_model_len;
  if (flags.max_model_len.empty())
    plan.max_tokens = std::min(plan.max_tokens, files.max_tokens.value_or(plan.max_tokens));
  return {};
}

}  // namespace

Result<bool> wants_pooling(const EngineFlags& flags) {
  const bool encoder = model::is_encoder_folder(flags.model);
  const bool asked = flags.runner == "pooling" || flags.task == "embed" || flags.task == "embedding";
  const bool generate = flags.runner == "generate" || flags.task == "generate";
  if (asked && generate) {
    return wrong_flag("--task", fmt::format("--runner {} contradicts --task {}", flags.runner, flags.task));
  }
  if (encoder && generate) {
    return wrong_flag("--runner", fmt::format("{} is an encoder: it makes embeddings and can't generate text",
                                              flags.model));
  }
  return encoder || asked;
}

const std::string& PoolingPlan::model_name() const {
  return encoder ? encoder->name : decoder->checkpoint.name;
}
const std::string& PoolingPlan::format() const {
  return encoder ? encoder->format : decoder->checkpoint.format;
}
std::string PoolingPlan::architecture() const {
  return encoder ? "bert" : std::string(model::architecture_name(decoder->checkpoint.config.architecture));
}
int64_t PoolingPlan::vocab_size() const {
  return encoder ? encoder->config.vocab_size : decoder->checkpoint.config.vocab_size;
}

Result<PoolingPlan> make_pooling_plan(const EngineFlags& flags) {
  PoolingPlan plan;
  if (model::is_encoder_folder(flags.model)) {
    PAGODA_TRY(plan_encoder(flags, plan));
  } else {
    PAGODA_TRY(plan_decoder(flags, plan));
  }
  plan.batch_tokens = std::max(flags.max_num_batched_tokens, plan.encoder ? plan.max_tokens : 0);
  plan.precision =
      flags.dtype == "float32" ? model::WeightPrecision::kFloat32 : model::WeightPrecision::kNative;
  plan.options.max_num_queued_reqs = flags.max_num_queued_reqs;
  plan.options.max_num_queued_tokens = flags.max_num_queued_tokens;
  return plan;
}

Result<void> PoolingRuntime::load_model() {
  if (plan_.encoder) {
    const model::EncoderOptions options{plan_.precision, plan_.pooling, plan_.batch_tokens, plan_.max_tokens};
    auto encoder = PAGODA_TRY(model::load_encoder(*plan_.encoder, options, *pool_));
    weight_bytes_ = encoder->weight_bytes();
    embedder_ = std::move(encoder);
    plan_.encoder->tensors.reset();  // unmaps the file: everything is packed
    return {};
  }
  RunPlan& plan = *plan_.decoder;
  decoder_ = PAGODA_TRY(model::load_decoder(plan.checkpoint, plan.decoder, *pool_));
  weight_bytes_ = decoder_->weight_bytes();
  plan.checkpoint.tensors.reset();
  model::DecoderEmbedderOptions options;
  options.pooling = plan_.pooling;
  options.step_tokens = plan_.batch_tokens;
  options.batch_tokens = plan_.batch_tokens;
  options.max_tokens = plan_.max_tokens;
  embedder_ = std::make_unique<model::DecoderEmbedder>(*decoder_, options);
  return {};
}

void PoolingRuntime::make_idle_engine(const Clock& clock) {
  no_model_ = std::make_unique<NoModel>(plan_.vocab_size());
  engine::EngineOptions options;
  options.num_blocks = 1;
  options.max_model_len = plan_.max_tokens;
  options.max_num_seqs = 1;
  options.max_num_batched_tokens = 1;
  idle_engine_ =
      std::make_unique<engine::Engine>(*no_model_, KvStorage(no_model_->kv_shape(), options.num_blocks),
                                       options, *pool_, clock, engine::EngineObserver());
}

Result<std::unique_ptr<PoolingRuntime>> PoolingRuntime::load(
    PoolingPlan plan, const Clock& clock, std::function<void(const engine::PoolingTimes&)> observe) {
  std::unique_ptr<PoolingRuntime> runtime(new PoolingRuntime());
  runtime->plan_ = std::move(plan);
  PoolingPlan& p = runtime->plan_;
  kernels::set_isa(p.isa);
  runtime->pool_ = std::make_unique<ComputePool>(p.threads);
  const std::string& tokenizer = p.encoder ? p.encoder->tokenizer_json : p.decoder->checkpoint.tokenizer_json;
  if (tokenizer.empty()) {
    return make_error(ErrorKind::kUnsupportedModel, p.model_name() + " has no tokenizer");
  }
  runtime->tokenizer_ = PAGODA_TRY(text::load_tokenizer(tokenizer));
  PAGODA_TRY(runtime->load_model());
  runtime->make_idle_engine(clock);
  runtime->engine_ =
      std::make_unique<engine::PoolingEngine>(*runtime->embedder_, p.options, clock, std::move(observe));
  return runtime;
}

}  // namespace pagoda::cli
