// The shape of a model, independent of the file it came from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "kernels/gated_activation.h"
#include "kernels/norm.h"

namespace pagoda::model {

enum class Architecture : uint8_t {
  kLlama,
  kMistral,
  kQwen2,
  kQwen3,
  kGemma2,
  kGemma3,
  kPhi3,
  kGranite,
  kStarcoder2,
  kGpt2,
  kMixtral,
  kQwen3Moe
};

// "llama", "mistral", ... as in Hugging Face's model_type.
std::string_view architecture_name(Architecture architecture);
// For the error that lists what can be run: "llama, mistral, qwen2, ...".
std::string supported_architectures();

struct RopeConfig {
  enum class Scaling : uint8_t { kNone, kLinear, kLlama3, kLongRope };
  double theta = 10000.0;
  Scaling scaling = Scaling::kNone;
  double factor = 1.0;
  double low_freq_factor = 1.0;                    // kLlama3
  double high_freq_factor = 4.0;                   // kLlama3
  int64_t original_max_positions = 8192;           // kLlama3, kLongRope
  std::vector<float> short_factors, long_factors;  // kLongRope: see choose_long_rope
  double magnitude = 1.0;                          // multiplies cos and sin
  std::vector<float> freq_factors;  // GGUF's rope_freqs.weight: divides each inverse frequency; empty = none
};

// Factors of sequences that fit the original positions, or of longer ones. One set has to do for all
// sequences, as keys in the cache are turned already: that of the longest one that a server may get, as vLLM
// does. kLongRope becomes kNone with freq_factors; other scalings stay.
void choose_long_rope(RopeConfig& rope, int64_t max_context);

// Radians per position for each of rotary_dim / 2 pairs, scaling applied. Formulae: transformers
// modeling_rope_utils.
std::vector<double> rope_inverse_frequencies(const RopeConfig& rope, int rotary_dim);

// Feed-forwards of which a router chooses a few for each token.
struct MoeConfig {
  int num_experts = 0;
  int experts_per_token = 0;
  int64_t intermediate_size = 0;  // of one expert
  bool renormalise = true;        // the weights of the chosen experts add up to one
  std::vector<uint8_t>
      layers;  // [num_layers]; 1 = experts, 0 = one feed-forward; empty: no layer has experts

  bool is_sparse(int layer) const { return !layers.empty() && layers[static_cast<size_t>(layer)] != 0; }
};

struct ModelConfig {
  Architecture architecture = Architecture::kLlama;
  int64_t vocab_size = 0;  // rows of the output head: may be more than the tokenizer has entries
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int num_layers = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int64_t max_positions = 0;  // the context length that the model was made for
  kernels::NormKind norm_kind = kernels::NormKind::kRms;
  float norm_eps = 1e-5f;

  bool learned_positions =
      false;           // a vector for each position, added to the embedding, instead of RoPE (GPT-2)
  int rotary_dim = 0;  // leading dimensions of a head that RoPE turns
  RopeConfig rope;
  RopeConfig rope_sliding;  // for layers with a window where the family gives them their own (Gemma 3)
  bool has_rope_sliding = false;
  std::vector<int64_t> layer_window;  // [num_layers]; sliding window in tokens, 0 = full attention

  bool qkv_bias = false;
  bool attention_out_bias = false;
  bool mlp_bias = false;
  bool qk_norm = false;               // RMSNorm per head on q and k before RoPE (Qwen 3, Gemma 3)
  bool post_norms = false;            // norms after attention and feed-forward too (Gemma)
  bool norm_weight_plus_one = false;  // the file stores w where the formula wants 1 + w (Gemma in HF files)
  bool tied_embeddings = false;
  float embedding_scale = 1.0f;    // Gemma: sqrt(hidden_size)
  float attention_scale = 0.0f;    // multiplies q . k
  float attention_softcap = 0.0f;  // cap * tanh(score / cap); 0 = none (Gemma 2)
  float residual_scale = 1.0f;     // multiplies what a block adds to the residual stream (Granite)
  float logit_scale = 1.0f;        // (Granite)
  float logit_softcap = 0.0f;      // as attention_softcap, of the logits
  bool gated_feed_forward = true;  // false: down(act(up(x)))
  kernels::GatedActivation activation = kernels::GatedActivation::kSilu;
  MoeConfig moe;

  TokenId bos;               // -1 when the model has none
  std::vector<TokenId> eos;  // from generation_config or config; ends a generation unless ignore_eos
};

}  // namespace pagoda::model
