#include "quantize/writer/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "model/loader/json_file.h"
#include "quantize/writer/code_formats.h"

namespace pagoda::quantize {
namespace {

using Json = nlohmann::ordered_json;
using model::Architecture;
using model::ModelConfig;

bool is_folder(const model::Checkpoint& checkpoint) {
  std::error_code ignored;
  return std::filesystem::is_directory(checkpoint.path, ignored);
}

// 1e-05 and not 9.999999747378752e-06.
double shortest(float value) {
  return std::stod(fmt::format("{}", value));
}

void replace(std::string& name, std::string_view from, std::string_view to) {
  if (const size_t at = name.find(from); at != std::string::npos) name.replace(at, from.size(), to);
}

struct Family {
  const char *class_name, *model_type;
};

Family family_of(Architecture architecture) {
  switch (architecture) {
    case Architecture::kLlama:
      return {"LlamaForCausalLM", "llama"};
    case Architecture::kMistral:
      return {"MistralForCausalLM", "mistral"};
    case Architecture::kMixtral:
      return {"MixtralForCausalLM", "mixtral"};
    case Architecture::kQwen2:
      return {"Qwen2ForCausalLM", "qwen2"};
    case Architecture::kQwen3:
      return {"Qwen3ForCausalLM", "qwen3"};
    case Architecture::kQwen3Moe:
      return {"Qwen3MoeForCausalLM", "qwen3_moe"};
    case Architecture::kGemma2:
      return {"Gemma2ForCausalLM", "gemma2"};
    case Architecture::kGemma3:
      return {"Gemma3ForCausalLM", "gemma3_text"};
    case Architecture::kGranite:
      return {"GraniteForCausalLM", "granite"};
    case Architecture::kStarcoder2:
      return {"Starcoder2ForCausalLM", "starcoder2"};
    case Architecture::kPhi3:
      return {"Phi3ForCausalLM", "phi3"};
    case Architecture::kGpt2:
      return {"GPT2LMHeadModel", "gpt2"};
  }
  return {"", ""};
}

// A GGUF file of Llama 3.1 and later has the factors that "llama3" computes, not what they come from.
// Meta's own numbers: one factor, and these bounds for all models.
bool is_llama3(const ModelConfig& config, double factor) {
  model::RopeConfig guess;
  guess.theta = config.rope.theta;
  guess.scaling = model::RopeConfig::Scaling::kLlama3;
  guess.factor = factor;
  const auto expected = model::rope_inverse_frequencies(guess, config.rotary_dim);
  const auto actual = model::rope_inverse_frequencies(config.rope, config.rotary_dim);
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::fabs(expected[i] - actual[i]) > 1e-4 * expected[i]) return false;
  }
  return true;
}

Result<Json> rope_scaling(const model::Checkpoint& checkpoint) {
  using Scaling = model::RopeConfig::Scaling;
  const model::RopeConfig& rope = checkpoint.config.rope;
  if (!rope.freq_factors.empty()) {
    const double factor = *std::max_element(rope.freq_factors.begin(), rope.freq_factors.end());
    if (is_llama3(checkpoint.config, factor)) {
      return Json{{"rope_type", "llama3"},
                  {"factor", factor},
                  {"low_freq_factor", 1.0},
                  {"high_freq_factor", 4.0},
                  {"original_max_position_embeddings", model::RopeConfig{}.original_max_positions}};
    }
  } else if (rope.scaling == Scaling::kNone) {
    return Json(nullptr);
  } else if (rope.scaling == Scaling::kLinear) {
    return Json{{"rope_type", "linear"}, {"factor", rope.factor}};
  }
  return make_error(ErrorKind::kUnsupportedModel,
                    fmt::format("{}: its RoPE factors can't be written into a config.json; quantise the "
                                "Hugging Face folder",
                                checkpoint.path));
}

void write_windows(const ModelConfig& config, Json& json) {
  const auto& windows = config.layer_window;
  const int64_t window = windows.empty() ? 0 : *std::max_element(windows.begin(), windows.end());
  if (window == 0) {
    // Mistral and Starcoder2 would take a missing key for their default.
    json["sliding_window"] = nullptr;
    return;
  }
  json["sliding_window"] = window;
  json["use_sliding_window"] = true;
  json["max_window_layers"] = 0;
  std::vector<std::string> types;
  for (const int64_t one : windows) types.emplace_back(one > 0 ? "sliding_attention" : "full_attention");
  json["layer_types"] = types;
}

void write_experts(const ModelConfig& config, Json& json) {
  const model::MoeConfig& moe = config.moe;
  if (moe.layers.empty()) return;
  const bool mixtral = config.architecture == Architecture::kMixtral;
  json[mixtral ? "num_local_experts" : "num_experts"] = moe.num_experts;
  json["num_experts_per_tok"] = moe.experts_per_token;
  if (mixtral) return;
  json["moe_intermediate_size"] = moe.intermediate_size;
  json["norm_topk_prob"] = moe.renormalise;
  json["decoder_sparse_step"] = 1;
  std::vector<int> dense;
  for (int layer = 0; layer < config.num_layers; ++layer) {
    if (!moe.is_sparse(layer)) dense.push_back(layer);
  }
  json["mlp_only_layers"] = dense;
}

void write_family(const ModelConfig& config, Json& json) {
  switch (config.architecture) {
    case Architecture::kGemma2:
      json["attn_logit_softcapping"] = shortest(config.attention_softcap);
      json["final_logit_softcapping"] = shortest(config.logit_softcap);
      [[fallthrough]];
    case Architecture::kGemma3:
      json["hidden_activation"] = "gelu_pytorch_tanh";
      json["query_pre_attn_scalar"] = std::round(1.0 / std::pow(double{config.attention_scale}, 2));
      json["rope_local_base_freq"] = config.rope_sliding.theta;
      return;
    case Architecture::kGranite:
      json["embedding_multiplier"] = shortest(config.embedding_scale);
      json["attention_multiplier"] = shortest(config.attention_scale);
      json["residual_multiplier"] = shortest(config.residual_scale);
      json["logits_scaling"] = 1.0 / double{config.logit_scale};
      break;
    case Architecture::kStarcoder2:
      json["hidden_act"] = "gelu_pytorch_tanh";
      json["norm_epsilon"] = shortest(config.norm_eps);
      json["use_bias"] = config.qkv_bias;
      return;
    default:
      break;
  }
  json["hidden_act"] = "silu";
  json["attention_bias"] = config.qkv_bias;
  json["mlp_bias"] = config.mlp_bias;
}

Result<Json> config_of_gguf(const model::Checkpoint& checkpoint) {
  const ModelConfig& config = checkpoint.config;
  const Family family = family_of(config.architecture);
  Json json;
  json["architectures"] = {family.class_name};
  json["model_type"] = family.model_type;
  json["vocab_size"] = config.vocab_size;
  json["hidden_size"] = config.hidden_size;
  json["intermediate_size"] = config.intermediate_size;
  json["num_hidden_layers"] = config.num_layers;
  json["num_attention_heads"] = config.num_heads;
  json["num_key_value_heads"] = config.num_kv_heads;
  json["head_dim"] = config.head_dim;
  json["max_position_embeddings"] = config.max_positions;
  json["rms_norm_eps"] = shortest(config.norm_eps);
  json["rope_theta"] = config.rope.theta;
  if (Json scaling = PAGODA_TRY(rope_scaling(checkpoint)); !scaling.is_null()) json["rope_scaling"] = scaling;
  json["tie_word_embeddings"] = config.tied_embeddings;
  write_windows(config, json);
  write_experts(config, json);
  write_family(config, json);
  if (config.bos.value >= 0) json["bos_token_id"] = config.bos.value;
  if (!config.eos.empty()) json["eos_token_id"] = config.eos.front().value;
  return json;
}

// The text model of a multimodal folder: its other parts are not written.
Json text_part(const Json& root, const ModelConfig& config) {
  if (!root.contains("text_config") || !root["text_config"].is_object()) return root;
  Json json = root["text_config"];
  const Family family = family_of(config.architecture);
  json["architectures"] = {family.class_name};
  json["model_type"] = family.model_type;
  for (const char* const key : {"bos_token_id", "eos_token_id", "pad_token_id", "tie_word_embeddings"}) {
    if (root.contains(key)) json[key] = root[key];
  }
  // What the class of the whole leaves out, as both have other defaults.
  json["vocab_size"] = config.vocab_size;
  json["num_attention_heads"] = config.num_heads;
  json["num_key_value_heads"] = config.num_kv_heads;
  json["head_dim"] = config.head_dim;
  return json;
}

Json gptq_section(const Options& options) {
  return {{"quant_method", "gptq"},
          {"bits", options.bits},
          {"group_size", options.group_size},
          {"sym", options.symmetric},
          {"desc_act", options.act_order},
          {"damp_percent", 0.01},
          {"static_groups", options.method == Method::kGptq && !options.act_order},
          {"true_sequential", false},
          {"lm_head", false},
          {"checkpoint_format", gptq_format(options.symmetric)},
          {"meta", {{"quantizer", {fmt::format("pagoda {}", method_name(options.method))}}}}};
}

Json awq_section(const Options& options) {
  return {{"quant_method", "awq"}, {"bits", options.bits}, {"group_size", options.group_size},
          {"zero_point", true},    {"version", "gemm"},    {"modules_to_not_convert", nullptr}};
}

Json int8_section(const ModelConfig& config) {
  const auto arguments = [](const char* strategy, bool dynamic) {
    return Json{{"num_bits", 8},
                {"type", "int"},
                {"symmetric", true},
                {"strategy", strategy},
                {"dynamic", dynamic},
                {"group_size", nullptr},
                {"block_structure", nullptr},
                {"actorder", nullptr},
                {"observer", dynamic ? Json(nullptr) : Json("minmax")},
                {"observer_kwargs", Json::object()}};
  };
  Json ignored = {"lm_head"};
  if (!config.moe.layers.empty()) ignored.push_back("re:.*\\.gate$");
  const Json group = {{"targets", {"Linear"}},
                      {"weights", arguments("channel", false)},
                      {"input_activations", arguments("token", true)},
                      {"output_activations", nullptr}};
  return {{"quant_method", "compressed-tensors"}, {"format", "int-quantized"},
          {"quantization_status", "compressed"},  {"global_compression_ratio", nullptr},
          {"kv_cache_scheme", nullptr},           {"ignore", ignored},
          {"config_groups", {{"group_0", group}}}};
}

}  // namespace

std::string stored_name(const ModelConfig& config, std::string name) {
  if (config.architecture == Architecture::kStarcoder2) {
    replace(name, "mlp.up_proj", "mlp.c_fc");
    replace(name, "mlp.down_proj", "mlp.c_proj");
  } else if (config.architecture == Architecture::kMixtral) {
    replace(name, ".mlp.", ".block_sparse_moe.");
    replace(name, ".gate_proj", ".w1");
    replace(name, ".down_proj", ".w2");
    replace(name, ".up_proj", ".w3");
  }
  return name;
}

Result<void> check_family(const model::Checkpoint& checkpoint) {
  const Architecture architecture = checkpoint.config.architecture;
  if (architecture != Architecture::kPhi3 && architecture != Architecture::kGpt2) return {};
  return make_error(ErrorKind::kUnsupportedModel,
                    fmt::format("{}: {} models can't be quantised yet: their files keep several projections "
                                "as one matrix",
                                checkpoint.path, model::architecture_name(architecture)));
}

Result<Json> quantized_config(const model::Checkpoint& checkpoint, const Options& options,
                              const std::string& dtype) {
  Json json;
  if (is_folder(checkpoint)) {
    json = text_part(Json(PAGODA_TRY(model::read_json_object(checkpoint.path + "/config.json"))),
                     checkpoint.config);
  } else {
    json = PAGODA_TRY(config_of_gguf(checkpoint));
  }
  json.erase("compression_config");  // the older name of quantization_config
  json.erase("dtype");               // the newer name of torch_dtype, which every version reads
  json["torch_dtype"] = dtype == "BF16" ? "bfloat16" : "float16";
  json["quantization_config"] = options.method == Method::kInt8  ? int8_section(checkpoint.config)
                                : options.method == Method::kAwq ? awq_section(options)
                                                                 : gptq_section(options);
  return json;
}

Json tokenizer_config(const model::Checkpoint& checkpoint) {
  Json json;
  json["tokenizer_class"] = "PreTrainedTokenizerFast";
  const auto token = [&](const char* key, const std::string& text) {
    if (!text.empty()) json[key] = text;
  };
  token("bos_token", checkpoint.bos_token);
  token("eos_token", checkpoint.eos_token);
  token("pad_token", checkpoint.pad_token);
  token("unk_token", checkpoint.unk_token);
  if (checkpoint.add_bos_token) json["add_bos_token"] = *checkpoint.add_bos_token;
  if (checkpoint.config.max_positions > 0) json["model_max_length"] = checkpoint.config.max_positions;
  json["clean_up_tokenization_spaces"] = false;
  if (!checkpoint.chat_template.empty()) json["chat_template"] = checkpoint.chat_template;
  return json;
}

Json generation_config(const model::Checkpoint& checkpoint) {
  Json json = Json::object();
  if (checkpoint.config.bos.value >= 0) json["bos_token_id"] = checkpoint.config.bos.value;
  std::vector<int32_t> eos;
  for (const TokenId id : checkpoint.config.eos) eos.push_back(id.value);
  if (!eos.empty()) json["eos_token_id"] = eos;
  const model::GenerationDefaults& defaults = checkpoint.generation;
  if (defaults.temperature) json["temperature"] = *defaults.temperature;
  if (defaults.top_p) json["top_p"] = *defaults.top_p;
  if (defaults.top_k) json["top_k"] = *defaults.top_k;
  if (defaults.repetition_penalty) json["repetition_penalty"] = *defaults.repetition_penalty;
  return json;
}

}  // namespace pagoda::quantize
