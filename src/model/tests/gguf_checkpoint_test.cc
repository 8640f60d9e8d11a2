#include "model/loader/gguf_checkpoint.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model_files.h"

namespace pagoda::model {
namespace {

using namespace test;

class GgufCheckpoint : public ::testing::Test {
 protected:
  Result<Checkpoint> open(const GgufBuilder& file) {
    return open_checkpoint(dir_.write("m.gguf", file.bytes()));
  }

  // The error of a file that must not open; its message names the file on one line.
  Error refused(const GgufBuilder& file, const std::string& part, ErrorKind kind = ErrorKind::kCorruptFile) {
    const auto checkpoint = open(file);
    EXPECT_FALSE(checkpoint) << part;
    if (checkpoint) return {};
    EXPECT_EQ(checkpoint.error().kind, kind) << checkpoint.error().message;
    EXPECT_NE(checkpoint.error().message.find(part), std::string::npos) << checkpoint.error().message;
    EXPECT_EQ(checkpoint.error().message.find(dir_.path()), 0u) << checkpoint.error().message;
    EXPECT_EQ(checkpoint.error().message.find('\n'), std::string::npos);
    return checkpoint.error();
  }

  TempDir dir_;
};

GgufBuilder with_vocabulary() {
  GgufBuilder file = tiny_gguf();
  file.text("tokenizer.ggml.model", "llama")
      .texts("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "a", "b"});
  file.floats("tokenizer.ggml.scores", {0, 0, 0, -1, -2}).i32s("tokenizer.ggml.token_type", {2, 3, 3, 1, 1});
  return file;
}

TEST_F(GgufCheckpoint, OpensACompleteFile) {
  const auto checkpoint = open(tiny_gguf());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const ModelConfig& c = checkpoint->config;
  EXPECT_EQ(checkpoint->name, "m");
  EXPECT_EQ(checkpoint->format, "GGUF v3 (F32 12)");
  EXPECT_EQ(c.architecture, Architecture::kLlama);
  EXPECT_EQ(c.vocab_size, 8);
  EXPECT_EQ(c.hidden_size, 32);
  EXPECT_EQ(c.intermediate_size, 48);
  EXPECT_EQ(c.num_layers, 1);
  EXPECT_EQ(c.num_heads, 2);
  EXPECT_EQ(c.num_kv_heads, 1);
  EXPECT_EQ(c.head_dim, 16);
  EXPECT_EQ(c.max_positions, 64);
  EXPECT_EQ(c.rope.theta, 10000.0);
  EXPECT_FLOAT_EQ(c.attention_scale, 0.25f);
  EXPECT_FALSE(c.tied_embeddings);
  EXPECT_FALSE(c.qkv_bias || c.attention_out_bias || c.mlp_bias || c.qk_norm || c.post_norms);
  EXPECT_EQ(c.layer_window, std::vector<int64_t>{0});
  EXPECT_EQ(c.bos.value, -1);
  EXPECT_TRUE(c.eos.empty());
  EXPECT_TRUE(checkpoint->tokenizer_json.empty());
}

// HF row (head, half s, j) is stored as row (head, 2 j + s).
TEST_F(GgufCheckpoint, UndoesTheInterleavedRowsOfLlamaOnly) {
  const auto first_column = [](const Checkpoint& c, const char* name, int64_t rows) {
    const auto matrix = c.tensors->matrix(name, rows, 32);
    std::vector<float> values(static_cast<size_t>(rows * 32));
    (*matrix)->read_values(0, rows, values.data());
    std::vector<int> stored;
    for (int64_t r = 0; r < rows; ++r)
      stored.push_back(static_cast<int>(values[static_cast<size_t>(r * 32)]) / 32);
    return stored;
  };
  const auto llama = open(tiny_gguf()
                              .f32_tensor("blk.0.attn_q.bias", {32})
                              .f32_tensor("blk.0.attn_k.bias", {16})
                              .f32_tensor("blk.0.attn_v.bias", {16}));
  ASSERT_TRUE(llama) << llama.error().message;
  const std::vector<int> k = {0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15};
  EXPECT_EQ(first_column(*llama, "model.layers.0.self_attn.k_proj.weight", 16), k);
  std::vector<int> q = k;
  for (const int row : k) q.push_back(row + 16);
  EXPECT_EQ(first_column(*llama, "model.layers.0.self_attn.q_proj.weight", 32), q);
  std::vector<int> straight(16);
  for (int i = 0; i < 16; ++i) straight[static_cast<size_t>(i)] = i;
  EXPECT_EQ(first_column(*llama, "model.layers.0.self_attn.v_proj.weight", 16), straight);
  EXPECT_TRUE(llama->config.qkv_bias);
  EXPECT_EQ(*llama->tensors->vector("model.layers.0.self_attn.k_proj.bias", 16),
            std::vector<float>(k.begin(), k.end()));

  const auto qwen = open(tiny_gguf("qwen2")
                             .f32_tensor("blk.0.attn_q.bias", {32})
                             .f32_tensor("blk.0.attn_k.bias", {16})
                             .f32_tensor("blk.0.attn_v.bias", {16}));
  ASSERT_TRUE(qwen) << qwen.error().message;
  EXPECT_EQ(first_column(*qwen, "model.layers.0.self_attn.k_proj.weight", 16), straight);
}

TEST_F(GgufCheckpoint, ReadsEachFamily) {
  const std::string missing = "tensor 'model.layers.0.self_attn.q_proj.bias' is missing";
  refused(tiny_gguf("qwen2"), missing);
  refused(tiny_gguf("qwen3"), "tensor 'model.layers.0.self_attn.q_norm.weight' is missing");

  GgufBuilder qwen3 = tiny_gguf("qwen3");
  qwen3.f32_tensor("blk.0.attn_q_norm.weight", {16}).f32_tensor("blk.0.attn_k_norm.weight", {16});
  const auto with_norms = open(qwen3);
  ASSERT_TRUE(with_norms) << with_norms.error().message;
  EXPECT_TRUE(with_norms->config.qk_norm);

  const auto tied = open(tiny_gguf().erase_tensor("output.weight"));
  ASSERT_TRUE(tied) << tied.error().message;
  EXPECT_TRUE(tied->config.tied_embeddings);

  GgufBuilder scaled = tiny_gguf();
  scaled.text("llama.rope.scaling.type", "linear")
      .f32("llama.rope.scaling.factor", 4)
      .f32("llama.rope.freq_base", 5e5f);
  scaled.u32("llama.attention.sliding_window", 24).f32_tensor("rope_freqs.weight", {8}, 1);
  const auto rope = open(scaled);
  ASSERT_TRUE(rope) << rope.error().message;
  EXPECT_EQ(rope->config.rope.scaling, RopeConfig::Scaling::kLinear);
  EXPECT_EQ(rope->config.rope.factor, 4.0);
  EXPECT_EQ(rope->config.rope.theta, 5e5);
  EXPECT_EQ(rope->config.rope.freq_factors, (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(rope->config.layer_window, std::vector<int64_t>{24});
}

GgufBuilder gemma3(int layers) {
  GgufBuilder file = tiny_gguf("gemma3");
  file.erase_tensor("output.weight").u32("gemma3.block_count", static_cast<uint32_t>(layers));
  file.u32("gemma3.attention.sliding_window", 512).u32("gemma3.attention.key_length", 16);
  file.u32("gemma3.attention.value_length", 16).f32("gemma3.rope.freq_base", 1e6f);
  for (int i = 0; i < layers; ++i) {
    const std::string blk = "blk." + std::to_string(i) + ".";
    for (const char* norm : {"attn_norm", "ffn_norm", "post_attention_norm", "post_ffw_norm"}) {
      file.f32_tensor(blk + norm + ".weight", {32}, norm[0] == 'f' ? 100 : 0);
    }
    file.f32_tensor(blk + "attn_q_norm.weight", {16}).f32_tensor(blk + "attn_k_norm.weight", {16});
    file.f32_tensor(blk + "attn_q.weight", {32, 32}).f32_tensor(blk + "attn_k.weight", {32, 16});
    file.f32_tensor(blk + "attn_v.weight", {32, 16}).f32_tensor(blk + "attn_output.weight", {32, 32});
    file.f32_tensor(blk + "ffn_gate.weight", {32, 48}).f32_tensor(blk + "ffn_up.weight", {32, 48});
    file.f32_tensor(blk + "ffn_down.weight", {48, 32});
  }
  return file;
}

TEST_F(GgufCheckpoint, ReadsGemma3) {
  const auto plain = open(gemma3(7));
  ASSERT_TRUE(plain) << plain.error().message;
  const ModelConfig& c = plain->config;
  EXPECT_EQ(c.layer_window, (std::vector<int64_t>{512, 512, 512, 512, 512, 0, 512}));
  EXPECT_TRUE(c.qk_norm && c.post_norms && c.tied_embeddings && c.has_rope_sliding);
  EXPECT_FALSE(c.norm_weight_plus_one);  // the converter has added the 1
  EXPECT_EQ(c.rope.theta, 1e6);
  EXPECT_EQ(c.rope_sliding.theta, 10000.0);
  EXPECT_FLOAT_EQ(c.embedding_scale, std::sqrt(32.0f));
  EXPECT_EQ(c.activation, kernels::GatedActivation::kGeluTanh);
  // ffn_norm is the norm before the feed-forward part, not the one after attention.
  EXPECT_EQ((*plain->tensors->vector("model.layers.6.pre_feedforward_layernorm.weight", 32))[0], 100.0f);
  EXPECT_EQ((*plain->tensors->vector("model.layers.6.post_attention_layernorm.weight", 32))[0], 0.0f);

  const auto period = open(gemma3(4).u32("gemma3.attention.sliding_window_pattern", 2));
  ASSERT_TRUE(period) << period.error().message;
  EXPECT_EQ(period->config.layer_window, (std::vector<int64_t>{512, 0, 512, 0}));
  const auto listed = open(gemma3(3).bools("gemma3.attention.sliding_window_pattern", {0, 1, 1}));
  ASSERT_TRUE(listed) << listed.error().message;
  EXPECT_EQ(listed->config.layer_window, (std::vector<int64_t>{0, 512, 512}));
  refused(gemma3(3).bools("gemma3.attention.sliding_window_pattern", {0, 1}), "2 entries for 3 layers");
}

TEST_F(GgufCheckpoint, RefusesWrongNumbers) {
  const auto file = [] { return tiny_gguf(); };
  refused(file().text("llama.block_count", "1"), "'llama.block_count' at offset");
  refused(file().u32("llama.block_count", 0), "'llama.block_count'");
  refused(file().u32("llama.block_count", 1u << 31), "'llama.block_count'");
  refused(file().u32("llama.block_count", 0x7fffffff), "llama.block_count");
  refused(file().u32("llama.block_count", 2), "'model.layers.1.self_attn.q_proj.weight' is missing");
  refused(file().erase("llama.block_count"), "'llama.block_count' is missing");
  refused(file().u32("llama.attention.head_count", 0), "'llama.attention.head_count'");
  refused(file().u32("llama.attention.head_count_kv", 4), "key-value heads 4");
  refused(file().u32("llama.attention.head_count", 4).u32("llama.attention.head_count_kv", 3), "evenly");
  refused(file().u32("llama.attention.head_count", 3), "'llama.attention.key_length' is missing");
  refused(file().u32("llama.embedding_length", 64), "has shape [8, 32] instead of [8, 64]");
  refused(file().u32("llama.context_length", 0), "'llama.context_length'");
  refused(file().u32("llama.rope.dimension_count", 32), "more than the head dimension 16");
  refused(file().f32("llama.rope.freq_base", 0), "RoPE base");
  refused(file().f32("llama.rope.freq_base", NAN), "RoPE base");
  refused(file().f32("llama.attention.layer_norm_rms_epsilon", -1), "epsilon");
  refused(file().erase("llama.attention.layer_norm_rms_epsilon"), "layer_norm_rms_epsilon");
  refused(file().erase("general.architecture"), "'general.architecture' is missing");
  refused(file().f32_tensor("rope_freqs.weight", {8}, 0), "frequency factor");
  refused(file().f32_tensor("rope_freqs.weight", {4}, 1), "shape [4] instead of [8]");
  refused(file().i32s("llama.feed_forward_length", {}), "differs between layers",
          ErrorKind::kUnsupportedModel);
}

TEST_F(GgufCheckpoint, RefusesWrongTensors) {
  const auto file = [] { return tiny_gguf(); };
  const auto unsupported = ErrorKind::kUnsupportedModel;
  refused(file().erase_tensor("output_norm.weight"), "'model.norm.weight' is missing");
  refused(file().erase_tensor("token_embd.weight"), "'token_embd.weight' is missing");
  refused(file().f32_tensor("token_embd.weight", {4, 64}), "has shape");
  refused(file().f32_tensor("output.weight", {32, 9}), "[9, 32] instead of [8, 32]");
  refused(file().tensor("blk.0.ffn_up.weight", {32, 48}, 26, std::string(32 * 48 * 4, '\0')), "type I32",
          unsupported);
  refused(file().tensor("blk.0.ffn_up.weight", {32, 48}, 28, std::string(32 * 48 * 8, '\0')), "type F64",
          unsupported);
  refused(file().tensor("output_norm.weight", {32}, 8, std::string(34, '\0')), "type Q8_0", unsupported);
  refused(file().f32_tensor("blk.1.attn_q.weight", {32, 32}),
          "'model.layers.1.self_attn.q_proj.weight' is no part", unsupported);
  refused(file().f32_tensor("blk.0.attn_output.bias", {32}).f32_tensor("blk.0.attn_sinks.weight", {2}),
          "'blk.0.attn_sinks.weight' is no part", unsupported);
  // A spelling that would name layer 0 a second time.
  refused(file().f32_tensor("blk.00.attn_q.weight", {32, 32}), "'blk.00.attn_q.weight' is no part",
          unsupported);
}

TEST_F(GgufCheckpoint, RefusesWhatCanNotRun) {
  const auto unsupported = ErrorKind::kUnsupportedModel;
  const Error error = refused(tiny_gguf("mamba"), "'mamba'", unsupported);
  EXPECT_NE(error.message.find(supported_architectures()), std::string::npos);
  refused(tiny_gguf("qwen2").u32("qwen2.expert_count", 8), "mixtures of experts of architecture qwen2",
          unsupported);
  refused(tiny_gguf().text("llama.rope.scaling.type", "yarn"), "'yarn'", unsupported);
  refused(tiny_gguf().u32("llama.rope.dimension_count", 8), "partial RoPE", unsupported);
  refused(tiny_gguf().u32("llama.attention.value_length", 8), "values of 8", unsupported);
}

TEST_F(GgufCheckpoint, RefusesContradictingVocabularies) {
  refused(with_vocabulary().floats("tokenizer.ggml.scores", {0, 0}), "2 entries for 5 tokens");
  refused(with_vocabulary().i32s("tokenizer.ggml.token_type", {1}), "1 entries for 5 tokens");
  refused(with_vocabulary().u32("tokenizer.ggml.bos_token_id", 5), "'tokenizer.ggml.bos_token_id' at offset");
  refused(with_vocabulary().i32("tokenizer.ggml.eos_token_id", -1), "outside the vocabulary of 5");
  refused(tiny_gguf()
              .text("tokenizer.ggml.model", "llama")
              .texts("tokenizer.ggml.tokens", std::vector<std::string>(9, "x")),
          "9 tokens, the embedding 8 rows");
  refused(with_vocabulary().text("tokenizer.ggml.model", "t5"), "t5", ErrorKind::kUnsupportedModel);
  refused(tiny_gguf().text("tokenizer.chat_template", std::string((1 << 20) + 1, 'x')), "limit");
}

TEST_F(GgufCheckpoint, ReadsSpecialTokensAndSamplingDefaults) {
  GgufBuilder file = tiny_gguf();
  file.f32("general.sampling.temp", 0.5f)
      .i32("general.sampling.top_k", 20)
      .text("tokenizer.chat_template", "{{ x }}");
  const auto checkpoint = open(file);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->generation.temperature, 0.5);
  EXPECT_EQ(checkpoint->generation.top_k, 20);
  EXPECT_FALSE(checkpoint->generation.top_p);
  EXPECT_EQ(checkpoint->chat_template, "{{ x }}");
}

// The tensors of `whole` from the second on go to a second file.
TEST_F(GgufCheckpoint, LoadsSplitSets) {
  GgufBuilder first = tiny_gguf(), second;
  first.erase_tensor("output.weight").erase_tensor("blk.0.ffn_down.weight");
  first.u16("split.no", 0).u16("split.count", 2).i32("split.tensors.count", 12);
  second.u16("split.no", 1).u16("split.count", 2);
  second.f32_tensor("output.weight", {32, 8}).f32_tensor("blk.0.ffn_down.weight", {48, 32});
  const std::string path = dir_.write("big-00001-of-00002.gguf", first.bytes());
  auto missing = open_checkpoint(path);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::kIo);
  EXPECT_NE(
      missing.error().message.find("part 2 of 2 is missing: " + dir_.path() + "/big-00002-of-00002.gguf"),
      std::string::npos)
      << missing.error().message;

  const std::string other = dir_.write("big-00002-of-00002.gguf", second.bytes());
  const auto whole = open_checkpoint(path);
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(whole->name, "big");
  EXPECT_EQ(whole->file_bytes, first.bytes().size() + second.bytes().size());
  EXPECT_TRUE(whole->tensors->contains("lm_head.weight"));
  EXPECT_EQ(open_checkpoint(other).error().kind, ErrorKind::kInvalidArgument);

  const auto message = [&] { return open_checkpoint(path).error().message; };
  dir_.write("big-00002-of-00002.gguf", GgufBuilder(second).f32_tensor("token_embd.weight", {32, 8}).bytes());
  EXPECT_NE(message().find("split.tensors.count is 12"), std::string::npos) << message();
  dir_.write("big-00001-of-00002.gguf", GgufBuilder(first).erase("split.tensors.count").bytes());
  EXPECT_NE(message().find("'token_embd.weight'"), std::string::npos) << message();
  dir_.write("big-00002-of-00002.gguf", GgufBuilder(second).u16("split.no", 0).bytes());
  EXPECT_NE(message().find("part 0 of 2"), std::string::npos) << message();
  dir_.write("big-00001-of-00002.gguf", GgufBuilder(first).u16("split.no", 7).bytes());
  EXPECT_NE(message().find("split.no 7"), std::string::npos) << message();
  EXPECT_NE(open_checkpoint(dir_.write("odd.gguf", first.bytes())).error().message.find("is not named like"),
            std::string::npos);
}

TEST_F(GgufCheckpoint, ReportsPathsThatAreNoModel) {
  EXPECT_EQ(open_checkpoint(dir_.path() + "/absent").error().kind, ErrorKind::kIo);
  EXPECT_EQ(open_checkpoint(dir_.write("a.txt", "hello, this is text")).error().kind,
            ErrorKind::kCorruptFile);
  EXPECT_EQ(open_checkpoint(dir_.write("model.safetensors", "")).error().kind, ErrorKind::kUnsupportedModel);
  EXPECT_EQ(open_checkpoint(dir_.path()).error().kind, ErrorKind::kIo);
  EXPECT_NE(open_checkpoint(dir_.path()).error().message.find("config.json"), std::string::npos);
}

TEST_F(GgufCheckpoint, FamilyKeysAreNamedWhenTheyAreWrong) {
  refused(tiny_gguf().u32("llama.expert_count", 8), "'llama.expert_used_count' is missing");
  refused(tiny_gguf().u32("llama.expert_count", 2).u32("llama.expert_used_count", 3), "experts per token 3");
  refused(tiny_gguf().u32("llama.expert_count", 8000).u32("llama.expert_used_count", 3),
          "number of experts 8000");
  refused(tiny_gguf("gemma2").f32("gemma2.attn_logit_softcapping", -2),
          "'gemma2.attn_logit_softcapping' is -2");
  refused(tiny_gguf("granite").f32("granite.residual_scale", 0), "'granite.residual_scale' is 0");
  refused(tiny_gguf("granite").f32("granite.logit_scale", NAN), "'granite.logit_scale' is nan");
  refused(tiny_gguf("gpt2"), "'gpt2.attention.layer_norm_epsilon'");
  refused(tiny_gguf("phi3").f32_tensor("rope_factors_long.weight", {8}, 1),
          "'rope_factors_short.weight' is missing");
  refused(tiny_gguf("phi3").f32_tensor("rope_factors_long.weight", {5}, 1), "shape [5] instead of [8]");
}

}  // namespace
}  // namespace pagoda::model
