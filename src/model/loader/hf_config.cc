#include "model/loader/hf_config.h"

#include <algorithm>
#include <array>
#include <limits>

#include "model/loader/file_error.h"
#include "model/loader/hf_families.h"
#include "model/loader/hf_rope.h"

namespace pagoda::model {
namespace {

constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();

struct KnownArchitecture {
  std::string_view class_name;
  Architecture architecture;
};
constexpr std::array<KnownArchitecture, 13> kKnown = {
    {{"LlamaForCausalLM", Architecture::kLlama},
     {"MistralForCausalLM", Architecture::kMistral},
     {"MixtralForCausalLM", Architecture::kMixtral},
     {"Qwen2ForCausalLM", Architecture::kQwen2},
     {"Qwen3ForCausalLM", Architecture::kQwen3},
     {"Qwen3MoeForCausalLM", Architecture::kQwen3Moe},
     {"Gemma2ForCausalLM", Architecture::kGemma2},
     {"Gemma3ForCausalLM", Architecture::kGemma3},
     {"Gemma3ForConditionalGeneration", Architecture::kGemma3},
     {"Phi3ForCausalLM", Architecture::kPhi3},
     {"GraniteForCausalLM", Architecture::kGranite},
     {"Starcoder2ForCausalLM", Architecture::kStarcoder2},
     {"GPT2LMHeadModel", Architecture::kGpt2}}};

Result<Architecture> read_architecture(const JsonView& root) {
  const nlohmann::json* const names = root.find("architectures");
  const bool has_name = names != nullptr && names->is_array() && !names->empty() && (*names)[0].is_string();
  if (!has_name) {
    return unsupported_model(root.where(), "names no architecture in 'architectures'; supported are {}",
                             supported_architectures());
  }
  const auto& name = (*names)[0].get_ref<const std::string&>();
  for (const KnownArchitecture& known : kKnown) {
    if (name == known.class_name) return known.architecture;
  }
  return unsupported_model(root.where(), "architecture {} can't be run; supported are {}", shown(name),
                           supported_architectures());
}

// What the families call the same thing.
struct SizeKeys {
  const char *hidden = "hidden_size", *intermediate = "intermediate_size", *layers = "num_hidden_layers",
             *heads = "num_attention_heads", *positions = "max_position_embeddings", *eps = "rms_norm_eps";
  double default_eps = 1e-6;
};

SizeKeys size_keys(Architecture architecture) {
  SizeKeys keys;
  if (architecture == Architecture::kGpt2) {
    return {"n_embd", "n_inner", "n_layer", "n_head", "n_positions", "layer_norm_epsilon", 1e-5};
  }
  if (architecture == Architecture::kStarcoder2) {
    keys.eps = "norm_epsilon";
    keys.default_eps = 1e-5;
  }
  return keys;
}

Result<void> read_head_dim(const JsonView& json, ModelConfig& config) {
  const bool gemma = is_gemma(config.architecture);
  const auto head_dim = PAGODA_TRY(json.integer("head_dim"));
  if (!head_dim && !gemma && config.hidden_size % config.num_heads != 0) {
    return corrupt_file(json.where(),
                        "key 'head_dim' is missing, and {} heads don't divide the hidden size {}",
                        config.num_heads, config.hidden_size);
  }
  const int64_t default_dim = gemma ? 256 : std::max<int64_t>(config.hidden_size / config.num_heads, 1);
  config.head_dim = static_cast<int>(PAGODA_TRY(positive_integer(json, "head_dim", default_dim)));
  return {};
}

Result<void> read_sizes(const JsonView& json, ModelConfig& config) {
  // The text part of a multimodal Gemma 3 folder leaves out what equals the defaults of its class.
  const bool gemma3 = config.architecture == Architecture::kGemma3;
  const auto fallback = [&](int64_t value) { return gemma3 ? std::optional(value) : std::nullopt; };
  const SizeKeys keys = size_keys(config.architecture);
  config.vocab_size = PAGODA_TRY(positive_integer(json, "vocab_size", fallback(262208)));
  config.hidden_size = PAGODA_TRY(positive_integer(json, keys.hidden, fallback(2304)));
  // GPT-2's null stands for this.
  const auto feed_forward =
      config.architecture == Architecture::kGpt2 ? std::optional(4 * config.hidden_size) : fallback(9216);
  config.intermediate_size = PAGODA_TRY(positive_integer(json, keys.intermediate, feed_forward));
  config.num_layers = static_cast<int>(PAGODA_TRY(positive_integer(json, keys.layers, fallback(26))));
  if (config.num_layers > 4096)
    return corrupt_file(json.where(), "key '{}' is {}", keys.layers, config.num_layers);
  config.num_heads = static_cast<int>(PAGODA_TRY(positive_integer(json, keys.heads, fallback(8))));
  const int64_t kv_heads =
      PAGODA_TRY(positive_integer(json, "num_key_value_heads", gemma3 ? 4 : config.num_heads));
  config.num_kv_heads = static_cast<int>(kv_heads);
  config.max_positions = PAGODA_TRY(positive_integer(json, keys.positions, fallback(131072)));
  PAGODA_TRY(read_head_dim(json, config));
  const double eps = PAGODA_TRY(json.real(keys.eps)).value_or(keys.default_eps);
  config.norm_eps = static_cast<float>(eps);
  return {};
}

Result<TokenId> token_id(const JsonView& json, const char* key, const nlohmann::json& value) {
  if (!value.is_number_integer() || value.get<int64_t>() < 0 || value.get<int64_t>() > kMaxInt) {
    return corrupt_file(json.where(), "key '{}' holds something else than token ids", key);
  }
  return TokenId{static_cast<int32_t>(value.get<int64_t>())};
}

// bos_token_id and eos_token_id, each a number or a list; what is absent stays as it is.
Result<void> read_token_ids(const JsonView& json, ModelConfig& config) {
  if (const nlohmann::json* const bos = json.find("bos_token_id")) {
    config.bos =
        PAGODA_TRY(token_id(json, "bos_token_id", bos->is_array() && !bos->empty() ? (*bos)[0] : *bos));
  }
  const nlohmann::json* const eos = json.find("eos_token_id");
  if (eos == nullptr) return {};
  config.eos.clear();
  if (!eos->is_array()) {
    config.eos.push_back(PAGODA_TRY(token_id(json, "eos_token_id", *eos)));
    return {};
  }
  for (const nlohmann::json& id : *eos) config.eos.push_back(PAGODA_TRY(token_id(json, "eos_token_id", id)));
  return {};
}

Result<void> check_default(const JsonView& root, std::string_view key, const std::optional<double>& value,
                           double low, double high) {
  if (!value || (*value >= low && *value <= high)) return {};
  return corrupt_file(root.where(), "key '{}' is {}, not in {} to {}", key, *value, low, high);
}

}  // namespace

Result<ModelConfig> hf_model_config(const JsonView& root) {
  ModelConfig config;
  config.architecture = PAGODA_TRY(read_architecture(root));
  const bool nests = config.architecture == Architecture::kGemma3;
  const auto nested = nests ? PAGODA_TRY(root.object("text_config")) : std::nullopt;
  const JsonView& json = nested ? *nested : root;

  PAGODA_TRY(read_sizes(json, config));
  PAGODA_TRY(read_hf_rope(json, config));
  PAGODA_TRY(read_hf_family(json, config));
  const auto tied = PAGODA_TRY(root.boolean("tie_word_embeddings"));
  const auto nested_tied = PAGODA_TRY(json.boolean("tie_word_embeddings"));
  config.tied_embeddings = tied ? *tied : nested_tied.value_or(tied_by_default(config.architecture));
  PAGODA_TRY(read_token_ids(json, config));
  if (nested) PAGODA_TRY(read_token_ids(root, config));
  return config;
}

Result<GenerationDefaults> hf_generation_defaults(const JsonView& root, ModelConfig& config) {
  PAGODA_TRY(read_token_ids(root, config));
  GenerationDefaults defaults;
  defaults.temperature = PAGODA_TRY(root.real("temperature"));
  defaults.top_p = PAGODA_TRY(root.real("top_p"));
  defaults.min_p = PAGODA_TRY(root.real("min_p"));
  defaults.repetition_penalty = PAGODA_TRY(root.real("repetition_penalty"));
  defaults.top_k = PAGODA_TRY(root.integer("top_k"));
  defaults.max_new_tokens = PAGODA_TRY(root.integer("max_new_tokens"));
  PAGODA_TRY(check_default(root, "temperature", defaults.temperature, 0, 100));
  PAGODA_TRY(check_default(root, "top_p", defaults.top_p, 0, 1));
  PAGODA_TRY(check_default(root, "min_p", defaults.min_p, 0, 1));
  PAGODA_TRY(check_default(root, "repetition_penalty", defaults.repetition_penalty, 1e-6, 1e6));
  if (defaults.top_k.value_or(0) < -1)
    return corrupt_file(root.where(), "key 'top_k' is {}", *defaults.top_k);
  if (defaults.max_new_tokens.value_or(1) < 1) {
    return corrupt_file(root.where(), "key 'max_new_tokens' is {}", *defaults.max_new_tokens);
  }
  return defaults;
}

}  // namespace pagoda::model
