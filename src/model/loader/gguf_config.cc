#include "model/loader/gguf_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "model/loader/file_error.h"

namespace pagoda::model {
namespace {

constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();

// Reads "<architecture>.<key>".
class ArchitectureKeys {
 public:
  explicit ArchitectureKeys(const GgufFile& file) : file_(file) {}

  Result<void> init() {
    prefix_ = std::string(PAGODA_TRY(file_.string("general.architecture")).value_or("")) + ".";
    return {};
  }

  std::string name(std::string_view key) const { return prefix_ + std::string(key); }

  // A positive 32-bit number; `fallback` when absent, an error when there is none either.
  Result<int64_t> positive(std::string_view key, std::optional<int64_t> fallback = std::nullopt) const {
    const std::string full = name(key);
    const auto value = PAGODA_TRY(file_.integer(full));
    if (!value && fallback) return *fallback;
    if (!value) return corrupt_file(file_.path(), "key {} is missing", shown(full));
    if (*value < 1 || *value > kMaxInt) {
      return corrupt_file(file_.path(), "key {} at offset {} is {}, not in 1 to {}", shown(full),
                          file_.find(full)->offset, *value, kMaxInt);
    }
    return *value;
  }

  // As `positive`, but one number per layer is fine when all are equal.
  Result<int64_t> same_in_all_layers(std::string_view key, std::optional<int64_t> fallback) const {
    const std::string full = name(key);
    const GgufValue* const value = file_.find(full);
    if (value == nullptr || value->type != GgufType::kArray) return positive(key, fallback);
    const auto numbers = PAGODA_TRY(file_.integers(full));
    if (numbers->empty() ||
        std::any_of(numbers->begin(), numbers->end(), [&](auto n) { return n != numbers->front(); })) {
      return unsupported_model(file_.path(), "key {} at offset {} differs between layers, which can't be run",
                               shown(full), value->offset);
    }
    if (numbers->front() < 1 || numbers->front() > kMaxInt) {
      return corrupt_file(file_.path(), "key {} at offset {} is {}", shown(full), value->offset,
                          numbers->front());
    }
    return numbers->front();
  }

  Result<double> real(std::string_view key, double fallback) const {
    const auto value = PAGODA_TRY(file_.real(name(key)));
    return value.value_or(fallback);
  }

 private:
  const GgufFile& file_;
  std::string prefix_;
};

// The factors lie beside the weights.
Result<void> read_long_rope(const ArchitectureKeys& keys, const GgufTensorSource& tensors,
                            ModelConfig& config) {
  const std::string long_name = "rope_factors_long.weight", short_name = "rope_factors_short.weight";
  if (!tensors.contains(long_name) && !tensors.contains(short_name)) return {};
  RopeConfig& rope = config.rope;
  rope.scaling = RopeConfig::Scaling::kLongRope;
  rope.long_factors = PAGODA_TRY(tensors.vector(long_name, config.rotary_dim / 2));
  rope.short_factors = PAGODA_TRY(tensors.vector(short_name, config.rotary_dim / 2));
  rope.original_max_positions =
      PAGODA_TRY(keys.positive("rope.scaling.original_context_length", config.max_positions));
  rope.magnitude = PAGODA_TRY(keys.real("rope.scaling.attn_factor", 1.0));
  return {};
}

Result<void> read_rope(const GgufFile& file, const ArchitectureKeys& keys, const GgufTensorSource& tensors,
                       ModelConfig& config) {
  config.rope.theta = PAGODA_TRY(keys.real("rope.freq_base", 10000.0));
  const int64_t rotary = PAGODA_TRY(keys.positive("rope.dimension_count", config.head_dim));
  if (rotary > config.head_dim) {
    return corrupt_file(file.path(), "{} {} is more than the head dimension {}",
                        keys.name("rope.dimension_count"), rotary, config.head_dim);
  }
  config.rotary_dim = static_cast<int>(rotary);
  if (rotary != config.head_dim && config.architecture != Architecture::kPhi3) {
    return unsupported_model(file.path(), "{} {} of a head of {}: partial RoPE can't be run",
                             keys.name("rope.dimension_count"), rotary, config.head_dim);
  }
  // Files before rope.scaling.* had the linear factor alone.
  double factor = PAGODA_TRY(keys.real("rope.scale_linear", 1.0));
  factor = PAGODA_TRY(keys.real("rope.scaling.factor", factor));
  const auto type = PAGODA_TRY(file.string(keys.name("rope.scaling.type")));
  const std::string_view spelled = type.value_or(factor == 1.0 ? "none" : "linear");
  if (spelled == "linear") {
    config.rope.scaling = RopeConfig::Scaling::kLinear;
    config.rope.factor = factor;
  } else if (spelled != "none" && !(spelled == "longrope" && config.architecture == Architecture::kPhi3)) {
    return unsupported_model(file.path(), "{} is {}; only none and linear can be run",
                             keys.name("rope.scaling.type"), shown(spelled));
  }
  const std::string name = "rope_freqs.weight";
  if (tensors.contains(name))
    config.rope.freq_factors = PAGODA_TRY(tensors.vector(name, config.head_dim / 2));
  return config.architecture == Architecture::kPhi3 ? read_long_rope(keys, tensors, config) : Result<void>{};
}

// What Gemma 2 and 3 share.
Result<void> read_gemma(const GgufFile& file, const ArchitectureKeys& keys, ModelConfig& config) {
  config.post_norms = true;
  config.activation = kernels::GatedActivation::kGeluTanh;
  config.embedding_scale = std::sqrt(static_cast<float>(config.hidden_size));
  // The 27B models alone scale by hidden / heads instead of by the head dimension; they alone have 46 and 62
  // layers. The converter writes no key for it.
  const int layers_of_27b = config.architecture == Architecture::kGemma2 ? 46 : 62;
  const int64_t scaled_by =
      config.num_layers == layers_of_27b ? config.hidden_size / config.num_heads : config.head_dim;
  config.attention_scale = 1.0f / std::sqrt(static_cast<float>(std::max<int64_t>(scaled_by, 1)));
  struct Cap {
    std::string_view key;
    float* value;
  };
  for (const Cap& cap : {Cap{"attn_logit_softcapping", &config.attention_softcap},
                         Cap{"final_logit_softcapping", &config.logit_softcap}}) {
    const double value = PAGODA_TRY(keys.real(cap.key, 0));
    if (!(value >= 0 && value <= 1e6)) {
      return corrupt_file(file.path(), "key {} is {}, not in 0 to 1e6", shown(keys.name(cap.key)), value);
    }
    *cap.value = static_cast<float>(value);
  }
  return {};
}

Result<void> read_gemma2(const GgufFile& file, const ArchitectureKeys& keys, ModelConfig& config) {
  PAGODA_TRY(read_gemma(file, keys, config));
  const int64_t window = PAGODA_TRY(keys.positive("attention.sliding_window", 4096));
  for (size_t i = 0; i < config.layer_window.size(); i += 2) config.layer_window[i] = window;
  return {};
}

Result<void> read_gemma3(const GgufFile& file, const ArchitectureKeys& keys, ModelConfig& config) {
  PAGODA_TRY(read_gemma(file, keys, config));
  config.qk_norm = true;
  config.rope_sliding.theta = PAGODA_TRY(keys.real("rope.freq_base_swa", 10000.0));
  config.has_rope_sliding = true;
  if (file.find(keys.name("attention.sliding_window")) == nullptr) return {};
  const int64_t window = PAGODA_TRY(keys.positive("attention.sliding_window"));
  const std::string pattern_key = keys.name("attention.sliding_window_pattern");
  const GgufValue* const pattern = file.find(pattern_key);
  if (pattern != nullptr && pattern->type == GgufType::kArray) {
    const auto sliding = PAGODA_TRY(file.integers(pattern_key));
    if (sliding->size() != config.layer_window.size()) {
      return corrupt_file(file.path(), "key {} at offset {} has {} entries for {} layers", shown(pattern_key),
                          pattern->offset, sliding->size(), config.num_layers);
    }
    for (size_t i = 0; i < sliding->size(); ++i) config.layer_window[i] = (*sliding)[i] != 0 ? window : 0;
    return {};
  }
  const int64_t period = PAGODA_TRY(keys.positive("attention.sliding_window_pattern", 6));
  for (size_t i = 0; i < config.layer_window.size(); ++i) {
    config.layer_window[i] = static_cast<int64_t>(i + 1) % period != 0 ? window : 0;
  }
  return {};
}

// Sizes alone; every number is positive and fits int afterwards.
Result<void> read_sizes(const GgufFile& file, const ArchitectureKeys& keys, ModelConfig& config) {
  config.num_layers = static_cast<int>(PAGODA_TRY(keys.positive("block_count")));
  if (static_cast<size_t>(config.num_layers) > file.size()) {
    return corrupt_file(file.path(), "{} {} is more than the file has bytes", keys.name("block_count"),
                        config.num_layers);
  }
  config.max_positions = PAGODA_TRY(keys.positive("context_length"));
  config.hidden_size = PAGODA_TRY(keys.positive("embedding_length"));
  config.intermediate_size = PAGODA_TRY(keys.same_in_all_layers("feed_forward_length", std::nullopt));
  config.num_heads =
      static_cast<int>(PAGODA_TRY(keys.same_in_all_layers("attention.head_count", std::nullopt)));
  config.num_kv_heads =
      static_cast<int>(PAGODA_TRY(keys.same_in_all_layers("attention.head_count_kv", config.num_heads)));
  const std::string key_length = keys.name("attention.key_length");
  if (file.find(key_length) == nullptr && config.hidden_size % config.num_heads != 0) {
    return corrupt_file(file.path(), "key {} is missing, and {} heads don't divide the hidden size {}",
                        shown(key_length), config.num_heads, config.hidden_size);
  }
  const int64_t head_dim =
      PAGODA_TRY(keys.positive("attention.key_length", config.hidden_size / config.num_heads));
  const int64_t value_dim = PAGODA_TRY(keys.positive("attention.value_length", head_dim));
  if (value_dim != head_dim) {
    return unsupported_model(file.path(), "keys of {} and values of {} can't be run", head_dim, value_dim);
  }
  config.head_dim = static_cast<int>(head_dim);
  return {};
}

Result<void> read_granite(const GgufFile& file, const ArchitectureKeys& keys, ModelConfig& config) {
  struct Scale {
    std::string_view key;
    float* value;
  };
  float logit_divisor = 1.0f;
  for (const Scale& scale :
       {Scale{"attention.scale", &config.attention_scale}, Scale{"embedding_scale", &config.embedding_scale},
        Scale{"residual_scale", &config.residual_scale}, Scale{"logit_scale", &logit_divisor}}) {
    const double value = PAGODA_TRY(keys.real(scale.key, static_cast<double>(*scale.value)));
    if (!(value >= 1e-6 && value <= 1e6)) {
      return corrupt_file(file.path(), "key {} is {}, not in 1e-6 to 1e6", shown(keys.name(scale.key)),
                          value);
    }
    *scale.value = static_cast<float>(value);
  }
  config.logit_scale = 1.0f / logit_divisor;
  return {};
}

// Mixtral's files say llama. Which layers have experts shows in their routers.
Result<void> read_experts(const GgufFile& file, const ArchitectureKeys& keys, const GgufTensorSource& tensors,
                          ModelConfig& config) {
  const int64_t count = PAGODA_TRY(file.integer(keys.name("expert_count"))).value_or(0);
  if (count == 0) return {};
  if (config.architecture == Architecture::kLlama) config.architecture = Architecture::kMixtral;
  if (config.architecture != Architecture::kMixtral && config.architecture != Architecture::kQwen3Moe) {
    return unsupported_model(file.path(), "mixtures of experts of architecture {} can't be run",
                             architecture_name(config.architecture));
  }
  MoeConfig& moe = config.moe;
  moe.num_experts = static_cast<int>(PAGODA_TRY(keys.positive("expert_count")));
  moe.experts_per_token = static_cast<int>(PAGODA_TRY(keys.positive("expert_used_count")));
  moe.intermediate_size = PAGODA_TRY(keys.positive("expert_feed_forward_length", config.intermediate_size));
  for (int layer = 0; layer < config.num_layers; ++layer) {
    moe.layers.push_back(tensors.contains(fmt::format("model.layers.{}.mlp.gate.weight", layer)) ? 1 : 0);
  }
  return {};
}

Result<void> read_window(const GgufFile& file, const ArchitectureKeys& keys, ModelConfig& config) {
  // 0 in Phi 4's files: none.
  const int64_t window = PAGODA_TRY(file.integer(keys.name("attention.sliding_window"))).value_or(0);
  if (window != 0) {
    config.layer_window.assign(config.layer_window.size(),
                               PAGODA_TRY(keys.positive("attention.sliding_window")));
  }
  return {};
}

void use_layer_norm(ModelConfig& config) {
  config.norm_kind = kernels::NormKind::kLayer;
  config.gated_feed_forward = false;
  config.activation = kernels::GatedActivation::kGeluTanh;
}

Result<std::optional<int64_t>> token_id(const GgufFile& file, std::string_view kind, size_t vocabulary) {
  const std::string key = "tokenizer.ggml." + std::string(kind) + "_token_id";
  const auto id = PAGODA_TRY(file.integer(key));
  if (id && (*id < 0 || static_cast<uint64_t>(*id) >= vocabulary)) {
    return corrupt_file(file.path(), "key {} at offset {} is {}, outside the vocabulary of {}", shown(key),
                        file.find(key)->offset, *id, vocabulary);
  }
  return id;
}

void add_eos(Checkpoint& checkpoint, int64_t id) {
  const TokenId token{static_cast<int32_t>(id)};
  auto& eos = checkpoint.config.eos;
  if (std::find(eos.begin(), eos.end(), token) == eos.end()) eos.push_back(token);
}

template <class T>
Result<void> check_length(const GgufFile& file, std::string_view key,
                          const std::optional<std::vector<T>>& list, size_t tokens) {
  if (!list || list->size() == tokens) return {};
  return corrupt_file(file.path(), "key {} at offset {} has {} entries for {} tokens", shown(key),
                      file.find(key)->offset, list->size(), tokens);
}

// The names without "fim_" are those of older files.
Result<FimTokens> read_fim_tokens(const GgufFile& file, size_t vocabulary) {
  FimTokens fim;
  struct Key {
    std::optional<TokenId>* token;
    const char *name, *old_name;
  };
  const Key keys[] = {{&fim.prefix, "fim_pre", "prefix"}, {&fim.suffix, "fim_suf", "suffix"},
                      {&fim.middle, "fim_mid", "middle"}, {&fim.pad, "fim_pad", ""},
                      {&fim.repo, "fim_rep", ""},         {&fim.separator, "fim_sep", ""}};
  for (const Key& key : keys) {
    auto id = PAGODA_TRY(token_id(file, key.name, vocabulary));
    if (!id && *key.old_name != '\0') id = PAGODA_TRY(token_id(file, key.old_name, vocabulary));
    if (id) *key.token = TokenId{static_cast<int32_t>(*id)};
  }
  return fim;
}

}  // namespace

Result<Architecture> gguf_architecture(const GgufFile& file) {
  const auto name = PAGODA_TRY(file.string("general.architecture"));
  if (!name) return corrupt_file(file.path(), "key 'general.architecture' is missing");
  // Mistral's files say llama.
  if (*name == "qwen3moe") return Architecture::kQwen3Moe;
  for (const Architecture known : {Architecture::kLlama, Architecture::kQwen2, Architecture::kQwen3,
                                   Architecture::kGemma2, Architecture::kGemma3, Architecture::kPhi3,
                                   Architecture::kGranite, Architecture::kStarcoder2, Architecture::kGpt2}) {
    if (*name == architecture_name(known)) return known;
  }
  return unsupported_model(file.path(), "architecture {} can't be run; supported are {}", shown(*name),
                           supported_architectures());
}

Result<ModelConfig> gguf_model_config(const GgufFile& file, Architecture architecture,
                                      GgufTensorSource& tensors) {
  ArchitectureKeys keys(file);
  PAGODA_TRY(keys.init());
  ModelConfig config;
  config.architecture = architecture;
  PAGODA_TRY(read_sizes(file, keys, config));
  PAGODA_TRY(read_experts(file, keys, tensors, config));
  const bool layer_norm = architecture == Architecture::kStarcoder2 || architecture == Architecture::kGpt2;
  if (layer_norm) use_layer_norm(config);
  const char* const eps_key =
      layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon";
  config.norm_eps = static_cast<float>(PAGODA_TRY(keys.real(eps_key, NAN)));
  if (std::isnan(config.norm_eps)) {
    return corrupt_file(file.path(), "key {} is missing or no number", shown(keys.name(eps_key)));
  }
  const auto embedding = tensors.shape("model.embed_tokens.weight");
  if (embedding.size() != 2)
    return corrupt_file(file.path(), "tensor 'token_embd.weight' is missing or no matrix");
  config.vocab_size = embedding[0];
  config.attention_scale = 1.0f / std::sqrt(static_cast<float>(config.head_dim));
  config.layer_window.assign(static_cast<size_t>(config.num_layers), 0);
  config.learned_positions = architecture == Architecture::kGpt2;
  if (!config.learned_positions) PAGODA_TRY(read_rope(file, keys, tensors, config));

  config.tied_embeddings = !tensors.contains("lm_head.weight");
  config.qkv_bias = tensors.contains("model.layers.0.self_attn.q_proj.bias") ||
                    tensors.contains("model.layers.0.self_attn.qkv_proj.bias");
  config.attention_out_bias = tensors.contains("model.layers.0.self_attn.o_proj.bias");
  config.mlp_bias = tensors.contains("model.layers.0.mlp.down_proj.bias");
  switch (architecture) {
    case Architecture::kLlama:
    case Architecture::kMistral:
    case Architecture::kMixtral:
      tensors.set_interleaved_head_dim(config.head_dim);
      PAGODA_TRY(read_window(file, keys, config));
      break;
    case Architecture::kGranite:
      tensors.set_interleaved_head_dim(config.head_dim);
      PAGODA_TRY(read_granite(file, keys, config));
      break;
    case Architecture::kPhi3:
      PAGODA_TRY(read_window(file, keys, config));
      break;
    case Architecture::kStarcoder2:
    case Architecture::kGpt2:
      break;
    case Architecture::kQwen2:
      config.qkv_bias = true;
      break;
    case Architecture::kQwen3:
    case Architecture::kQwen3Moe:
      config.qk_norm = true;
      break;
    case Architecture::kGemma2:
      PAGODA_TRY(read_gemma2(file, keys, config));
      break;
    case Architecture::kGemma3:
      PAGODA_TRY(read_gemma3(file, keys, config));
      break;
  }
  return config;
}

Result<GgufVocabulary> gguf_vocabulary(const GgufFile& file) {
  GgufVocabulary vocabulary;
  vocabulary.model = std::string(PAGODA_TRY(file.string("tokenizer.ggml.model")).value_or(""));
  vocabulary.pre = std::string(PAGODA_TRY(file.string("tokenizer.ggml.pre")).value_or(""));
  const auto tokens = PAGODA_TRY(file.strings("tokenizer.ggml.tokens"));
  if (!tokens) return vocabulary;
  vocabulary.tokens.assign(tokens->begin(), tokens->end());
  auto scores = PAGODA_TRY(file.floats("tokenizer.ggml.scores"));
  PAGODA_TRY(check_length(file, "tokenizer.ggml.scores", scores, tokens->size()));
  if (scores) vocabulary.scores = std::move(*scores);
  const auto types = PAGODA_TRY(file.integers("tokenizer.ggml.token_type"));
  PAGODA_TRY(check_length(file, "tokenizer.ggml.token_type", types, tokens->size()));
  if (types) {
    // Numbers beyond int32 can't be a token type; -1 is none either, and the tokenizer refuses both alike.
    for (const int64_t type : *types) {
      vocabulary.token_types.push_back(type < 0 || type > kMaxInt ? -1 : static_cast<int32_t>(type));
    }
  }
  const auto merges = PAGODA_TRY(file.strings("tokenizer.ggml.merges"));
  if (merges) vocabulary.merges.assign(merges->begin(), merges->end());
  vocabulary.bos_id = PAGODA_TRY(token_id(file, "bos", tokens->size()));
  vocabulary.eos_id = PAGODA_TRY(token_id(file, "eos", tokens->size()));
  vocabulary.unk_id = PAGODA_TRY(token_id(file, "unknown", tokens->size()));
  vocabulary.add_bos = PAGODA_TRY(file.boolean("tokenizer.ggml.add_bos_token"));
  vocabulary.add_eos = PAGODA_TRY(file.boolean("tokenizer.ggml.add_eos_token"));
  vocabulary.add_space_prefix = PAGODA_TRY(file.boolean("tokenizer.ggml.add_space_prefix"));
  return vocabulary;
}

Result<GenerationDefaults> gguf_generation_defaults(const GgufFile& file) {
  GenerationDefaults defaults;
  defaults.temperature = PAGODA_TRY(file.real("general.sampling.temp"));
  defaults.top_p = PAGODA_TRY(file.real("general.sampling.top_p"));
  defaults.min_p = PAGODA_TRY(file.real("general.sampling.min_p"));
  defaults.repetition_penalty = PAGODA_TRY(file.real("general.sampling.penalty_repeat"));
  defaults.top_k = PAGODA_TRY(file.integer("general.sampling.top_k"));
  return defaults;
}

Result<void> read_gguf_special_tokens(const GgufFile& file, const GgufVocabulary& vocabulary,
                                      Checkpoint& checkpoint) {
  const auto& tokens = vocabulary.tokens;
  const auto text = [&](const std::optional<int64_t>& id) {
    return id ? tokens[static_cast<size_t>(*id)] : std::string();
  };
  if (vocabulary.bos_id) checkpoint.config.bos = TokenId{static_cast<int32_t>(*vocabulary.bos_id)};
  checkpoint.bos_token = text(vocabulary.bos_id);
  checkpoint.eos_token = text(vocabulary.eos_id);
  checkpoint.unk_token = text(vocabulary.unk_id);
  checkpoint.pad_token = text(PAGODA_TRY(token_id(file, "padding", tokens.size())));
  checkpoint.add_bos_token = vocabulary.add_bos;
  checkpoint.fim = PAGODA_TRY(read_fim_tokens(file, tokens.size()));
  if (vocabulary.eos_id) add_eos(checkpoint, *vocabulary.eos_id);
  for (const std::string_view kind : {"eot", "eom"}) {
    const auto id = PAGODA_TRY(token_id(file, kind, tokens.size()));
    if (id) add_eos(checkpoint, *id);
  }
  // Most files name one end token, though chat models have more: the control tokens that end a turn or a text
  // in the supported families end a generation too.
  constexpr std::array<std::string_view, 5> kEnds = {"<|im_end|>", "<|eot_id|>", "<|eom_id|>",
                                                     "<end_of_turn>", "<|endoftext|>"};
  constexpr int32_t kControl = 3;  // token type of llama.cpp
  for (size_t i = 0; i < vocabulary.token_types.size(); ++i) {
    if (vocabulary.token_types[i] == kControl &&
        std::find(kEnds.begin(), kEnds.end(), tokens[i]) != kEnds.end()) {
      add_eos(checkpoint, static_cast<int64_t>(i));
    }
  }
  return {};
}

}  // namespace pagoda::model
