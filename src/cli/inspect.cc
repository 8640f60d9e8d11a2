#include "cli/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cli/runtime.h"
#include "model/decoder_weights.h"
#include "model/pack.h"

namespace pagoda::cli {
namespace {

std::string join_shape(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

void print_config(const model::Checkpoint& checkpoint) {
  const model::ModelConfig& config = checkpoint.config;
  const auto windows =
      std::count_if(config.layer_window.begin(), config.layer_window.end(), [](int64_t w) { return w > 0; });
  fmt::print("model          {}\n", checkpoint.path);
  fmt::print("architecture   {}\n", model::architecture_name(config.architecture));
  fmt::print("file           {}, {}\n", checkpoint.format, format_bytes(checkpoint.file_bytes));
  fmt::print("layers         {}, hidden {}, feed-forward {}\n", config.num_layers, config.hidden_size,
             config.intermediate_size);
  const auto sparse = std::count(config.moe.layers.begin(), config.moe.layers.end(), 1);
  if (sparse > 0) {
    fmt::print("experts        {} of {} per token in {} layers, feed-forward {}\n",
               config.moe.experts_per_token, config.moe.num_experts, sparse, config.moe.intermediate_size);
  }
  fmt::print("attention      {} heads, {} kv heads, head_dim {}{}\n", config.num_heads, config.num_kv_heads,
             config.head_dim, windows > 0 ? fmt::format(", {} layers with a sliding window", windows) : "");
  fmt::print("vocabulary     {}{}\n", config.vocab_size,
             config.tied_embeddings ? ", tied to the output head" : "");
  fmt::print("context        {} tokens\n", config.max_positions);
  fmt::print("chat template  {}\n", checkpoint.chat_template.empty() ? "none" : "yes");
}

}  // namespace

Result<void> run_inspect(const InspectFlags& flags) {
  const RunPlan plan = PAGODA_TRY(make_run_plan(flags.engine));
  print_config(plan.checkpoint);
  const uint64_t weights = PAGODA_TRY(model::decoder_weight_bytes(plan.checkpoint, plan.decoder.precision));
  fmt::print("weights        {} packed ({})\n", format_bytes(weights),
             plan.decoder.precision == model::WeightPrecision::kFloat32 ? "float32" : "native formats");
  const KvShape shape{plan.checkpoint.config.num_layers, plan.checkpoint.config.num_kv_heads,
                      plan.checkpoint.config.head_dim, plan.decoder.kv_dtype};
  fmt::print("kv cache       {} bytes a token ({})\n", kv_block_bytes(shape) / kKvBlockTokens,
             dtype_name(plan.decoder.kv_dtype));
  const auto memory = plan_kv(plan, weights, 0);
  if (memory) {
    fmt::print("memory plan    {} of KV: {} blocks, {} tokens; limit {}\n", format_bytes(memory->kv_bytes),
               memory->num_blocks, memory->kv_tokens, format_bytes(plan.memory_limit));
  } else {
    fmt::print("memory plan    {}\n", memory.error().message);
  }
  fmt::print("machine        {}, {} threads, {}\n", cpu_model_name(), plan.threads, isa_name(plan.isa));
  if (flags.tensors) {
    for (const auto& tensor : plan.checkpoint.tensors->list()) {
      fmt::print("  {:60} {:>8} {:>16} {}\n", tensor.name, tensor.format, join_shape(tensor.shape),
                 format_bytes(tensor.bytes));
    }
  }
  return {};
}

}  // namespace pagoda::cli
