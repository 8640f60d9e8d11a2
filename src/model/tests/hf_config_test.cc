#include "model/loader/hf_config.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/loader/model_check.h"

namespace pagoda::model {
namespace {

using nlohmann::json;

json base(const std::string& architecture = "LlamaForCausalLM") {
  return {{"architectures", {architecture}},
          {"vocab_size", 100},
          {"hidden_size", 64},
          {"intermediate_size", 96},
          {"num_hidden_layers", 4},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"max_position_embeddings", 512},
          {"rms_norm_eps", 1e-5}};
}
json with(json object, const json& changes) {
  object.update(changes);
  return object;
}

Result<ModelConfig> read(const json& object) {
  ModelConfig config = PAGODA_TRY(hf_model_config(JsonView(object, "config.json")));
  PAGODA_TRY(check_config(config, "config.json"));
  return config;
}
ModelConfig good(const json& object) {
  const auto config = read(object);
  EXPECT_TRUE(config) << config.error().message << " " << object;
  return config ? *config : ModelConfig();
}
void refused(const json& object, const std::string& part, ErrorKind kind = ErrorKind::kCorruptFile) {
  const auto config = read(object);
  ASSERT_FALSE(config) << object;
  EXPECT_EQ(config.error().kind, kind) << config.error().message;
  EXPECT_EQ(config.error().message.find("config.json"), 0u) << config.error().message;
  EXPECT_NE(config.error().message.find(part), std::string::npos) << config.error().message;
}
constexpr auto kUnsupported = ErrorKind::kUnsupportedModel;

TEST(HfConfig, ReadsSizes) {
  const ModelConfig c = good(base());
  EXPECT_EQ(c.vocab_size, 100);
  EXPECT_EQ(c.hidden_size, 64);
  EXPECT_EQ(c.intermediate_size, 96);
  EXPECT_EQ(c.num_layers, 4);
  EXPECT_EQ(c.num_heads, 4);
  EXPECT_EQ(c.num_kv_heads, 2);
  EXPECT_EQ(c.head_dim, 16);
  EXPECT_FLOAT_EQ(c.attention_scale, 0.25f);
  EXPECT_FALSE(c.tied_embeddings);
  json no_kv = base();
  no_kv.erase("num_key_value_heads");
  EXPECT_EQ(good(no_kv).num_kv_heads, 4);
}

TEST(HfConfig, HeadDimNeedNotBeHiddenOverHeads) {
  EXPECT_EQ(good(with(base(), {{"head_dim", 128}})).head_dim, 128);
  EXPECT_EQ(good(with(base(), {{"head_dim", nullptr}})).head_dim, 16);
  EXPECT_EQ(good(with(base(), {{"hidden_size", 66}, {"head_dim", 16}})).head_dim, 16);
  refused(with(base(), {{"hidden_size", 66}}), "'head_dim' is missing");
  // Qwen3-4B.
  const json qwen = {
      {"hidden_size", 2560}, {"num_attention_heads", 32}, {"num_key_value_heads", 8}, {"head_dim", 128}};
  const ModelConfig c = good(with(base("Qwen3ForCausalLM"), qwen));
  for (const RequiredTensor& t : required_tensors(c)) {
    if (t.name == "model.layers.0.self_attn.q_proj.weight") {
      EXPECT_EQ(t.rows, 4096);
    }
    if (t.name == "model.layers.0.self_attn.k_proj.weight") {
      EXPECT_EQ(t.rows, 1024);
    }
    if (t.name == "model.layers.0.self_attn.o_proj.weight") {
      EXPECT_EQ(t.rows, 2560);
      EXPECT_EQ(t.depth, 4096);
    }
  }
}

TEST(HfConfig, RefusesWrongNumbers) {
  for (const char* const key : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                                "num_attention_heads", "num_key_value_heads", "max_position_embeddings"}) {
    for (const json& value : {json(0), json(-1), json(1ull << 31), json(UINT64_MAX), json("4"), json(1.5),
                              json(1e300), json::array({4}), json(true)}) {
      refused(with(base(), {{key, value}}), key);
    }
  }
  for (const char* const key :
       {"vocab_size", "hidden_size", "num_hidden_layers", "max_position_embeddings"}) {
    json object = base();
    object.erase(key);
    refused(object, key);
  }
  refused(with(base(), {{"num_key_value_heads", 8}}), "key-value heads 8");
  refused(with(base(), {{"num_key_value_heads", 3}}), "evenly");
  refused(with(base(), {{"head_dim", 15}}), "odd");
  refused(with(base(), {{"num_hidden_layers", 100000}}), "num_hidden_layers");
  refused(with(base(), {{"rms_norm_eps", -1}}), "epsilon");
  refused(with(base(), {{"rope_theta", 0}}), "RoPE base");
  EXPECT_EQ(good(with(base(), {{"max_position_embeddings", 4096.0}})).max_positions, 4096);
}

TEST(HfConfig, RefusesWhatCanNotRun) {
  const auto all = supported_architectures();
  refused(base("FalconForCausalLM"), "'FalconForCausalLM'", kUnsupported);
  refused(base("FalconForCausalLM"), all, kUnsupported);
  for (const json& names : {json(nullptr), json::array(), json("LlamaForCausalLM"), json::array({1})}) {
    refused(with(base(), {{"architectures", names}}), "architectures", kUnsupported);
  }
  refused(with(base(), {{"hidden_act", "relu"}}), "'relu'", kUnsupported);
  refused(with(base(), {{"partial_rotary_factor", 0.5}}), "partial_rotary_factor", kUnsupported);
}

TEST(HfConfig, ReadsEverySpellingOfRope) {
  for (const json& none :
       {json(nullptr), json::object(), json{{"type", "default"}}, json{{"rope_type", "default"}}}) {
    EXPECT_EQ(good(with(base(), {{"rope_scaling", none}})).rope.scaling, RopeConfig::Scaling::kNone) << none;
  }
  for (const char* const key : {"type", "rope_type"}) {
    const ModelConfig c =
        good(with(base(), {{"rope_theta", 5e5}, {"rope_scaling", {{key, "linear"}, {"factor", 2}}}}));
    EXPECT_EQ(c.rope.scaling, RopeConfig::Scaling::kLinear);
    EXPECT_EQ(c.rope.factor, 2.0);
    EXPECT_EQ(c.rope.theta, 5e5);
  }
  const json llama3 = {{"rope_type", "llama3"},
                       {"factor", 32.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 8192}};
  const ModelConfig old = good(with(base(), {{"rope_theta", 5e5}, {"rope_scaling", llama3}}));
  EXPECT_EQ(old.rope.scaling, RopeConfig::Scaling::kLlama3);
  EXPECT_EQ(old.rope.original_max_positions, 8192);
  const ModelConfig fresh = good(with(base(), {{"rope_parameters", with(llama3, {{"rope_theta", 5e5}})}}));
  EXPECT_EQ(rope_inverse_frequencies(fresh.rope, 64), rope_inverse_frequencies(old.rope, 64));

  for (const char* const type : {"yarn", "dynamic", "longrope", "su", "no such"}) {
    refused(with(base(), {{"rope_scaling", {{"type", type}, {"factor", 2}}}}), type, kUnsupported);
  }
  refused(with(base(), {{"rope_scaling", {{"type", "linear"}}}}), "'factor' is missing");
  refused(with(base(), {{"rope_scaling", {{"type", "linear"}, {"factor", 0}}}}), "factor 0");
  refused(with(base(), {{"rope_scaling", "linear"}}), "'rope_scaling'");
  refused(with(base(), {{"rope_scaling", {{"type", "llama3"}, {"factor", 2}}}}), "low_freq_factor");
  refused(with(base(), {{"rope_scaling", with(llama3, {{"high_freq_factor", 1.0}})}}), "rising");
}

TEST(HfConfig, SlidingWindowsFollowTheGatesOfEachFamily) {
  using Windows = std::vector<int64_t>;
  const auto windows = [](const char* name, const json& keys) {
    return good(with(base(name), keys)).layer_window;
  };
  const char *mistral = "MistralForCausalLM", *qwen3 = "Qwen3ForCausalLM", *llama = "LlamaForCausalLM";
  EXPECT_EQ(windows(mistral, {{"sliding_window", nullptr}}), Windows(4, 0));
  EXPECT_EQ(windows(mistral, json::object()), Windows(4, 4096));
  EXPECT_EQ(windows(mistral, {{"sliding_window", 24}}), Windows(4, 24));
  EXPECT_EQ(windows(llama, {{"sliding_window", 24}}), Windows(4, 0));
  EXPECT_EQ(windows(qwen3, {{"sliding_window", 2048}}), Windows(4, 0));
  const json on = {{"sliding_window", 2048}, {"use_sliding_window", true}};
  EXPECT_EQ(windows(qwen3, on), Windows(4, 0));  // max_window_layers is 28 when absent
  EXPECT_EQ(windows(qwen3, with(on, {{"max_window_layers", 2}})), (Windows{0, 0, 2048, 2048}));
  const json types = {"sliding_attention", "full_attention", "full_attention", "sliding_attention"};
  EXPECT_EQ(windows(qwen3, with(on, {{"layer_types", types}, {"max_window_layers", 2}})),
            (Windows{2048, 0, 0, 2048}));
  refused(with(base(qwen3), with(on, {{"layer_types", {"full_attention"}}})), "layer_types");
  refused(with(base(qwen3), with(on, {{"layer_types", {"x", "x", "x", "x"}}})), "layer_types", kUnsupported);
  refused(with(base(mistral), {{"sliding_window", 0}}), "sliding_window");
}

TEST(HfConfig, ReadsGemma3OfBothVersions) {
  json old = with(base("Gemma3ForCausalLM"), {{"num_hidden_layers", 7},
                                              {"sliding_window", 512},
                                              {"head_dim", 16},
                                              {"query_pre_attn_scalar", 64},
                                              {"rope_theta", 1e6},
                                              {"rope_local_base_freq", 1e4},
                                              {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}}});
  json fresh =
      with(old, {{"rope_parameters",
                  {{"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 1e6}}},
                   {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 1e4}}}}}});
  for (const char* const key : {"rope_theta", "rope_local_base_freq", "rope_scaling"}) fresh.erase(key);
  for (const json& object : {old, fresh}) {
    const ModelConfig c = good(object);
    EXPECT_EQ(c.layer_window, (std::vector<int64_t>{512, 512, 512, 512, 512, 0, 512}));
    EXPECT_EQ(c.rope.theta, 1e6);
    EXPECT_EQ(c.rope.factor, 8.0);
    EXPECT_TRUE(c.has_rope_sliding);
    EXPECT_EQ(c.rope_sliding.theta, 1e4);
    EXPECT_EQ(c.rope_sliding.scaling, RopeConfig::Scaling::kNone);
    EXPECT_FLOAT_EQ(c.attention_scale, 0.125f);
    EXPECT_FLOAT_EQ(c.embedding_scale, 8.0f);
    EXPECT_TRUE(c.norm_weight_plus_one && c.qk_norm && c.post_norms && c.tied_embeddings);
    EXPECT_EQ(c.activation, kernels::GatedActivation::kGeluTanh);
  }
  // A multimodal folder: the text model nested, with defaults left out.
  const json nested = {{"architectures", {"Gemma3ForConditionalGeneration"}},
                       {"eos_token_id", {1, 106}},
                       {"text_config",
                        {{"hidden_size", 2560},
                         {"intermediate_size", 10240},
                         {"num_hidden_layers", 34},
                         {"sliding_window", 1024}}}};
  const ModelConfig c = good(nested);
  EXPECT_EQ(c.num_heads, 8);
  EXPECT_EQ(c.head_dim, 256);
  EXPECT_EQ(c.vocab_size, 262208);
  EXPECT_EQ(c.eos, (std::vector<TokenId>{{1}, {106}}));
  EXPECT_EQ(c.layer_window[5], 0);
  EXPECT_EQ(c.layer_window[6], 1024);
}

TEST(HfConfig, BiasesAndTyingFollowTheFamily) {
  const json bias = {{"attention_bias", true}, {"mlp_bias", true}};
  const ModelConfig llama = good(with(base(), bias));
  EXPECT_TRUE(llama.qkv_bias && llama.attention_out_bias && llama.mlp_bias);
  const ModelConfig qwen2 = good(base("Qwen2ForCausalLM"));
  EXPECT_TRUE(qwen2.qkv_bias);
  EXPECT_FALSE(qwen2.attention_out_bias || qwen2.mlp_bias);
  const ModelConfig qwen3 = good(with(base("Qwen3ForCausalLM"), bias));
  EXPECT_TRUE(qwen3.qkv_bias && qwen3.attention_out_bias && qwen3.qk_norm);
  EXPECT_FALSE(qwen3.mlp_bias);
  EXPECT_FALSE(good(base("MistralForCausalLM")).qkv_bias);
  EXPECT_TRUE(good(with(base(), {{"tie_word_embeddings", true}})).tied_embeddings);
  EXPECT_FALSE(good(with(base("Gemma3ForCausalLM"), {{"tie_word_embeddings", false}})).tied_embeddings);
}

TEST(HfConfig, TokenIdsAndSamplingDefaults) {
  json object = with(base(), {{"bos_token_id", 1}, {"eos_token_id", 2}});
  ModelConfig c = good(object);
  EXPECT_EQ(c.bos.value, 1);
  EXPECT_EQ(c.eos, std::vector<TokenId>{{2}});
  const json generation = {
      {"eos_token_id", {2, 7}},     {"temperature", 0.7},     {"top_p", 0.8},     {"top_k", 20},
      {"repetition_penalty", 1.05}, {"max_new_tokens", 2048}, {"do_sample", true}};
  const auto defaults = hf_generation_defaults(JsonView(generation, "generation_config.json"), c);
  ASSERT_TRUE(defaults) << defaults.error().message;
  EXPECT_EQ(c.bos.value, 1);
  EXPECT_EQ(c.eos, (std::vector<TokenId>{{2}, {7}}));
  EXPECT_EQ(defaults->temperature, 0.7);
  EXPECT_EQ(defaults->top_p, 0.8);
  EXPECT_EQ(defaults->top_k, 20);
  EXPECT_EQ(defaults->repetition_penalty, 1.05);
  EXPECT_EQ(defaults->max_new_tokens, 2048);
  EXPECT_FALSE(defaults->min_p);
  for (const json& bad :
       {json{{"temperature", -1}}, json{{"top_p", 1.5}}, json{{"top_k", -5}}, json{{"min_p", "x"}},
        json{{"max_new_tokens", 0}}, json{{"repetition_penalty", 0}}}) {
    EXPECT_FALSE(hf_generation_defaults(JsonView(bad, "g"), c)) << bad;
  }
  refused(with(base(), {{"eos_token_id", 100}}), "EOS token 100 is outside the vocabulary of 100");
  refused(with(base(), {{"bos_token_id", 5000}}), "BOS token 5000");
  refused(with(base(), {{"eos_token_id", {1, -2}}}), "eos_token_id");
  refused(with(base(), {{"eos_token_id", "</s>"}}), "eos_token_id");
}

TEST(HfConfig, ReadsGemma2) {
  const ModelConfig c =
      good(with(base("Gemma2ForCausalLM"), {{"query_pre_attn_scalar", 40}, {"sliding_window", 24}}));
  EXPECT_EQ(c.layer_window, (std::vector<int64_t>{24, 0, 24, 0}));
  EXPECT_TRUE(c.post_norms && c.norm_weight_plus_one && c.tied_embeddings && !c.qk_norm);
  EXPECT_EQ(c.head_dim, 256) << "the default of the class";
  EXPECT_EQ(c.attention_softcap, 50.0f) << "absent is the default of the class";
  EXPECT_EQ(c.logit_softcap, 30.0f);
  EXPECT_FLOAT_EQ(c.attention_scale, 1 / std::sqrt(40.0f));
  const json off = {{"attn_logit_softcapping", nullptr}, {"final_logit_softcapping", 12.5}};
  EXPECT_EQ(good(with(base("Gemma2ForCausalLM"), off)).attention_softcap, 0.0f);
  EXPECT_EQ(good(with(base("Gemma2ForCausalLM"), off)).logit_softcap, 12.5f);
  EXPECT_EQ(good(with(base("Gemma3ForCausalLM"), {{"final_logit_softcapping", 30.0}})).logit_softcap, 30.0f);
  EXPECT_EQ(good(base("Gemma3ForCausalLM")).logit_softcap, 0.0f);
  refused(with(base("Gemma2ForCausalLM"), {{"attn_logit_softcapping", -5}}),
          "'attn_logit_softcapping' is -5");
}

TEST(HfConfig, ReadsPhi3AndLongRope) {
  const ModelConfig plain = good(base("Phi3ForCausalLM"));
  EXPECT_EQ(plain.rotary_dim, 16);
  EXPECT_EQ(plain.rope.magnitude, 1.0);
  EXPECT_EQ(plain.layer_window, std::vector<int64_t>(4, 0)) << "absent is off";
  EXPECT_EQ(good(with(base("Phi3ForCausalLM"), {{"sliding_window", 47}})).layer_window,
            std::vector<int64_t>(4, 47));

  const json scaling = {
      {"type", "longrope"}, {"short_factor", {1, 1.5, 2, 2.5, 3, 3.5}}, {"long_factor", {2, 3, 4, 5, 6, 7}}};
  const json keys = {
      {"rope_scaling", scaling}, {"partial_rotary_factor", 0.75}, {"original_max_position_embeddings", 64}};
  const json long_rope = with(base("Phi3ForCausalLM"), keys);
  ModelConfig c = good(long_rope);
  EXPECT_EQ(c.rotary_dim, 12);
  EXPECT_NEAR(c.rope.magnitude, std::sqrt(1 + std::log(8) / std::log(64)), 1e-12);
  RopeConfig rope = c.rope;
  choose_long_rope(rope, 64);
  EXPECT_EQ(rope.freq_factors, (std::vector<float>{1, 1.5, 2, 2.5, 3, 3.5}));
  EXPECT_DOUBLE_EQ(rope_inverse_frequencies(rope, 12)[1], std::pow(10000, -2.0 / 12) / 1.5);
  rope = c.rope;
  choose_long_rope(rope, 65);
  EXPECT_EQ(rope.freq_factors, (std::vector<float>{2, 3, 4, 5, 6, 7}));
  json stated = long_rope;
  stated["rope_scaling"]["attention_factor"] = 1.25;
  EXPECT_EQ(good(stated).rope.magnitude, 1.25);

  json broken = long_rope;
  broken["rope_scaling"]["long_factor"] = {1, 2};
  refused(broken, "2 RoPE long factors");
  broken["rope_scaling"]["long_factor"] = {1, 2, 3, 0, 4, 5};
  refused(broken, "long factors: 0 ");
  broken["rope_scaling"]["long_factor"] = "x";
  refused(broken, "'long_factor'");
  broken["rope_scaling"].erase("long_factor");
  refused(broken, "'long_factor'");
  refused(with(long_rope, {{"partial_rotary_factor", 1.5}}), "'partial_rotary_factor' is 1.5");
  refused(with(long_rope, {{"partial_rotary_factor", 0.01}}), "turn 0 of 16");
  refused(with(base(), {{"rope_scaling", scaling}}), "'longrope'", kUnsupported);
}

TEST(HfConfig, ReadsGranite) {
  const ModelConfig none = good(base("GraniteForCausalLM"));
  EXPECT_EQ(none.attention_scale, 1.0f) << "the default of the class";
  const ModelConfig c = good(with(base("GraniteForCausalLM"), {{"embedding_multiplier", 12},
                                                               {"attention_multiplier", 0.015625},
                                                               {"residual_multiplier", 0.22},
                                                               {"logits_scaling", 8},
                                                               {"attention_bias", true}}));
  EXPECT_EQ(c.embedding_scale, 12.0f);
  EXPECT_EQ(c.attention_scale, 0.015625f);
  EXPECT_EQ(c.residual_scale, 0.22f);
  EXPECT_EQ(c.logit_scale, 0.125f);
  EXPECT_TRUE(c.qkv_bias && c.attention_out_bias && !c.mlp_bias);
  for (const char* const key :
       {"embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling"}) {
    refused(with(base("GraniteForCausalLM"), {{key, 0}}), std::string("'") + key + "' is 0,");
  }
}

TEST(HfConfig, ReadsStarcoder2) {
  const ModelConfig c = good(with(base("Starcoder2ForCausalLM"), {{"norm_epsilon", 1e-3}}));
  EXPECT_EQ(c.norm_kind, kernels::NormKind::kLayer);
  EXPECT_EQ(c.norm_eps, 1e-3f);
  EXPECT_TRUE(c.qkv_bias && c.attention_out_bias && c.mlp_bias && c.tied_embeddings);
  EXPECT_FALSE(c.gated_feed_forward);
  EXPECT_EQ(c.activation, kernels::GatedActivation::kGeluTanh);
  EXPECT_FALSE(good(with(base("Starcoder2ForCausalLM"), {{"use_bias", false}})).mlp_bias);
  refused(with(base("Starcoder2ForCausalLM"), {{"norm_type", "rms_norm"}}), "'norm_type' is 'rms_norm'",
          kUnsupported);
  refused(with(base("Starcoder2ForCausalLM"), {{"mlp_type", "gated"}}), "'mlp_type' is 'gated'",
          kUnsupported);
  refused(with(base("Starcoder2ForCausalLM"), {{"hidden_act", "gelu"}}), "'hidden_act': activation 'gelu'",
          kUnsupported);
}

TEST(HfConfig, ReadsGpt2) {
  const json gpt2 = {{"architectures", {"GPT2LMHeadModel"}},
                     {"vocab_size", 100},
                     {"n_embd", 64},
                     {"n_layer", 2},
                     {"n_head", 4},
                     {"n_positions", 128},
                     {"n_inner", nullptr}};
  const ModelConfig c = good(gpt2);
  EXPECT_EQ(c.hidden_size, 64);
  EXPECT_EQ(c.intermediate_size, 256);
  EXPECT_EQ(c.num_kv_heads, 4);
  EXPECT_EQ(c.max_positions, 128);
  EXPECT_EQ(c.norm_eps, 1e-5f);
  EXPECT_TRUE(c.learned_positions && c.qkv_bias && c.attention_out_bias && c.mlp_bias && c.tied_embeddings);
  EXPECT_EQ(good(with(gpt2, {{"scale_attn_weights", false}})).attention_scale, 1.0f);
  for (const char* const key : {"n_embd", "n_layer", "n_head", "n_positions", "n_inner"}) {
    refused(with(gpt2, {{key, 0}}), std::string("'") + key + "' is 0");
  }
  refused(with(gpt2, {{"activation_function", "relu"}}), "'activation_function': activation 'relu'",
          kUnsupported);
  refused(with(gpt2, {{"scale_attn_by_inverse_layer_idx", true}}), "scale_attn_by_inverse_layer_idx",
          kUnsupported);
}

TEST(HfConfig, ReadsExperts) {
  const json qwen = with(base("Qwen3MoeForCausalLM"),
                         {{"num_experts", 6}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 80}});
  const ModelConfig c = good(with(qwen, {{"mlp_only_layers", {1}}}));
  EXPECT_EQ(c.moe.num_experts, 6);
  EXPECT_EQ(c.moe.experts_per_token, 2);
  EXPECT_EQ(c.moe.intermediate_size, 80);
  EXPECT_EQ(c.moe.layers, (std::vector<uint8_t>{1, 0, 1, 1}));
  EXPECT_FALSE(c.moe.renormalise) << "the default of the class";
  EXPECT_TRUE(c.qk_norm);
  EXPECT_TRUE(good(with(qwen, {{"norm_topk_prob", true}})).moe.renormalise);
  EXPECT_EQ(good(with(qwen, {{"decoder_sparse_step", 2}})).moe.layers, (std::vector<uint8_t>{0, 1, 0, 1}));
  EXPECT_EQ(good(with(qwen, {{"sliding_window", 9}})).layer_window, std::vector<int64_t>(4, 0));
  const ModelConfig m =
      good(with(base("MixtralForCausalLM"), {{"num_local_experts", 8}, {"num_experts_per_tok", 2}}));
  EXPECT_EQ(m.moe.intermediate_size, 96);
  EXPECT_TRUE(m.moe.renormalise && m.moe.is_sparse(3));

  refused(with(qwen, {{"num_experts", 0}}), "'num_experts' is 0");
  refused(with(qwen, {{"num_experts", 2000}}), "number of experts 2000");
  refused(with(qwen, {{"num_experts_per_tok", 7}}), "experts per token 7");
  refused(with(qwen, {{"moe_intermediate_size", -1}}), "'moe_intermediate_size' is -1");
  refused(with(qwen, {{"mlp_only_layers", {4}}}),
          "'mlp_only_layers' names something else than layers 0 to 3");
  refused(with(qwen, {{"mlp_only_layers", 3}}), "'mlp_only_layers'");
  refused(base("MixtralForCausalLM"), "'num_local_experts' is missing");
}

}  // namespace
}  // namespace pagoda::model
