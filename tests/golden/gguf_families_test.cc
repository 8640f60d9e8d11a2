// Checkpoints of golden/tiny as GGUF files with the keys and tensors that llama.cpp's converter writes,
// against the same references as the folders. The files are made here, in float32: what they hold is small,
// and no package is needed to make them again.
#include <gtest/gtest.h>

#include <cmath>

#include "golden/golden_case.h"
#include "model/loader/float_matrix.h"
#include "model/tests/model_files.h"

namespace pagoda::testing_support {
namespace {

using model::Architecture;
using model::ModelConfig;
using model::test::GgufBuilder;

class Converter {
 public:
  explicit Converter(const std::filesystem::path& folder) {
    auto opened = model::open_checkpoint(folder.string());
    if (!opened) throw std::runtime_error(opened.error().message);
    checkpoint_ = std::move(*opened);
  }

  std::string bytes() {
    arch_ = std::string(model::architecture_name(c().architecture));
    if (c().architecture == Architecture::kMixtral) arch_ = "llama";
    if (c().architecture == Architecture::kQwen3Moe) arch_ = "qwen3moe";
    permutes_ = arch_ == "llama" || arch_ == "granite";
    keys();
    family_keys();
    matrix("token_embd.weight", rows("model.embed_tokens.weight", c().vocab_size, c().hidden_size),
           c().hidden_size);
    norm("output_norm", "model.norm");
    if (!c().tied_embeddings)
      matrix("output.weight", rows("lm_head.weight", c().vocab_size, c().hidden_size), c().hidden_size);
    if (c().learned_positions) {
      matrix("position_embd.weight", rows("model.embed_positions.weight", c().max_positions, c().hidden_size),
             c().hidden_size);
    }
    for (int layer = 0; layer < c().num_layers; ++layer) add_layer(layer);
    return file_.bytes();
  }

 private:
  using Floats = std::vector<float>;
  const ModelConfig& c() const { return checkpoint_.config; }

  void keys() {
    const auto u32 = [&](const char* key, int64_t value) {
      file_.u32(arch_ + key, static_cast<uint32_t>(value));
    };
    file_.text("general.architecture", arch_);
    u32(".block_count", c().num_layers);
    u32(".context_length", c().max_positions);
    u32(".embedding_length", c().hidden_size);
    u32(".feed_forward_length", c().intermediate_size);
    u32(".attention.head_count", c().num_heads);
    u32(".attention.head_count_kv", c().num_kv_heads);
    if (c().head_dim * c().num_heads != c().hidden_size) {
      u32(".attention.key_length", c().head_dim);
      u32(".attention.value_length", c().head_dim);
    }
    const bool rms = c().norm_kind == kernels::NormKind::kRms;
    file_.f32(arch_ + (rms ? ".attention.layer_norm_rms_epsilon" : ".attention.layer_norm_epsilon"),
              c().norm_eps);
    if (!c().learned_positions) {
      file_.f32(arch_ + ".rope.freq_base", static_cast<float>(c().rope.theta));
      u32(".rope.dimension_count", c().rotary_dim);
    }
    if (!c().moe.layers.empty()) {
      u32(".expert_count", c().moe.num_experts);
      u32(".expert_used_count", c().moe.experts_per_token);
    }
  }

  void family_keys() {
    switch (c().architecture) {
      case Architecture::kGemma2:
        file_.f32("gemma2.attn_logit_softcapping", c().attention_softcap);
        file_.f32("gemma2.final_logit_softcapping", c().logit_softcap);
        file_.u32("gemma2.attention.sliding_window", 24);
        break;
      case Architecture::kGranite:
        file_.f32("granite.attention.scale", c().attention_scale);
        file_.f32("granite.embedding_scale", c().embedding_scale);
        file_.f32("granite.residual_scale", c().residual_scale);
        file_.f32("granite.logit_scale", 1 / c().logit_scale);
        break;
      case Architecture::kPhi3:
        file_.u32("phi3.attention.sliding_window", 0);
        file_.u32("phi3.rope.scaling.original_context_length",
                  static_cast<uint32_t>(c().rope.original_max_positions));
        if (c().rope.long_factors.empty()) break;
        file_.f32("phi3.rope.scaling.attn_factor", static_cast<float>(c().rope.magnitude));
        vector("rope_factors_long.weight", c().rope.long_factors);
        vector("rope_factors_short.weight", c().rope.short_factors);
        break;
      case Architecture::kQwen3Moe:
        file_.u32("qwen3moe.expert_feed_forward_length", static_cast<uint32_t>(c().moe.intermediate_size));
        break;
      default:
        break;
    }
  }

  Floats rows(const std::string& name, int64_t count, int64_t depth) const {
    const auto reader = checkpoint_.tensors->matrix(name, count, depth);
    if (!reader) throw std::runtime_error(reader.error().message);
    Floats values(static_cast<size_t>(count * depth));
    (*reader)->read_values(0, count, values.data());
    return values;
  }
  Floats numbers(const std::string& name, int64_t count) const {
    const auto values = checkpoint_.tensors->vector(name, count);
    if (!values) throw std::runtime_error(values.error().message);
    return *values;
  }
  void vector(const std::string& name, const Floats& values) {
    file_.tensor(name, {values.size()}, 0, model::test::le_list(values));
  }
  void matrix(const std::string& name, const Floats& values, int64_t depth) {
    const auto k = static_cast<uint64_t>(depth);
    file_.tensor(name, {k, values.size() / k}, 0, model::test::le_list(values));
  }

  void norm(const std::string& to, const std::string& from) {
    Floats weight = numbers(from + ".weight", c().hidden_size);
    if (c().norm_weight_plus_one) {
      for (float& w : weight) w += 1;
    }
    vector(to + ".weight", weight);
    if (c().norm_kind == kernels::NormKind::kLayer)
      vector(to + ".bias", numbers(from + ".bias", c().hidden_size));
  }

  // A weight and its bias; q and k of llama's kind in interleaved order.
  void linear(const std::string& to, const std::string& from, int64_t count, int64_t depth, bool bias) {
    Floats values = rows(from + ".weight", count, depth);
    const bool is_q = to.ends_with("attn_q"), is_k = to.ends_with("attn_k");
    if (permutes_ && (is_q || is_k)) {
      Floats stored(values.size());
      for (int64_t r = 0; r < count; ++r) {
        std::copy_n(values.begin() + r * depth, depth,
                    stored.begin() + model::stored_row(r, c().head_dim) * depth);
      }
      values = std::move(stored);
    }
    // A GGUF file can't say what Gemma 2 scales by; the head dimension is taken, so q makes up for it.
    if (is_q && c().architecture == Architecture::kGemma2) {
      for (float& w : values) w *= c().attention_scale * std::sqrt(static_cast<float>(c().head_dim));
    }
    matrix(to + ".weight", values, depth);
    if (bias) vector(to + ".bias", numbers(from + ".bias", count));
  }

  // Several one after the other as one.
  struct Part {
    std::string name;
    int64_t count;
  };
  void fused(const std::string& to, const std::vector<Part>& parts, int64_t depth, bool bias) {
    Floats weights, biases;
    for (const Part& part : parts) {
      const Floats more = rows(part.name + ".weight", part.count, depth);
      weights.insert(weights.end(), more.begin(), more.end());
      if (!bias) continue;
      const Floats more_bias = numbers(part.name + ".bias", part.count);
      biases.insert(biases.end(), more_bias.begin(), more_bias.end());
    }
    matrix(to + ".weight", weights, depth);
    if (bias) vector(to + ".bias", biases);
  }

  void add_attention(const std::string& blk, const std::string& from) {
    const int64_t q = int64_t{c().num_heads} * c().head_dim, kv = int64_t{c().num_kv_heads} * c().head_dim;
    const std::string self = from + "self_attn.";
    if (c().architecture == Architecture::kPhi3 || c().architecture == Architecture::kGpt2) {
      fused(blk + "attn_qkv", {{self + "q_proj", q}, {self + "k_proj", kv}, {self + "v_proj", kv}},
            c().hidden_size, c().qkv_bias);
    } else {
      linear(blk + "attn_q", self + "q_proj", q, c().hidden_size, c().qkv_bias);
      linear(blk + "attn_k", self + "k_proj", kv, c().hidden_size, c().qkv_bias);
      linear(blk + "attn_v", self + "v_proj", kv, c().hidden_size, c().qkv_bias);
    }
    linear(blk + "attn_output", self + "o_proj", c().hidden_size, q, c().attention_out_bias);
    if (!c().qk_norm) return;
    vector(blk + "attn_q_norm.weight", numbers(self + "q_norm.weight", c().head_dim));
    vector(blk + "attn_k_norm.weight", numbers(self + "k_norm.weight", c().head_dim));
  }

  void add_experts(const std::string& blk, const std::string& mlp) {
    linear(blk + "ffn_gate_inp", mlp + "gate", c().moe.num_experts, c().hidden_size, false);
    const struct {
      const char *to, *from;
      int64_t count, depth;
    } kinds[] = {{"ffn_gate_exps", "gate_proj", c().moe.intermediate_size, c().hidden_size},
                 {"ffn_up_exps", "up_proj", c().moe.intermediate_size, c().hidden_size},
                 {"ffn_down_exps", "down_proj", c().hidden_size, c().moe.intermediate_size}};
    for (const auto& kind : kinds) {
      Floats all;
      for (int expert = 0; expert < c().moe.num_experts; ++expert) {
        const std::string name = mlp + "experts." + std::to_string(expert) + "." + kind.from + ".weight";
        const Floats one = rows(name, kind.count, kind.depth);
        all.insert(all.end(), one.begin(), one.end());
      }
      file_.tensor(blk + kind.to + ".weight",
                   {static_cast<uint64_t>(kind.depth), static_cast<uint64_t>(kind.count),
                    static_cast<uint64_t>(c().moe.num_experts)},
                   0, model::test::le_list(all));
    }
  }

  void add_layer(int layer) {
    const std::string blk = "blk." + std::to_string(layer) + ".";
    const std::string from = "model.layers." + std::to_string(layer) + ".", mlp = from + "mlp.";
    const int64_t width = c().intermediate_size;
    norm(blk + "attn_norm", from + "input_layernorm");
    add_attention(blk, from);
    if (c().post_norms) {
      norm(blk + "post_attention_norm", from + "post_attention_layernorm");
      norm(blk + "ffn_norm", from + "pre_feedforward_layernorm");
      norm(blk + "post_ffw_norm", from + "post_feedforward_layernorm");
    } else {
      norm(blk + "ffn_norm", from + "post_attention_layernorm");
    }
    if (c().moe.is_sparse(layer)) return add_experts(blk, mlp);
    if (c().architecture == Architecture::kPhi3) {
      fused(blk + "ffn_up", {{mlp + "gate_proj", width}, {mlp + "up_proj", width}}, c().hidden_size, false);
    } else {
      if (c().gated_feed_forward)
        linear(blk + "ffn_gate", mlp + "gate_proj", width, c().hidden_size, c().mlp_bias);
      linear(blk + "ffn_up", mlp + "up_proj", width, c().hidden_size, c().mlp_bias);
    }
    linear(blk + "ffn_down", mlp + "down_proj", c().hidden_size, width, c().mlp_bias);
  }

  model::Checkpoint checkpoint_;
  std::string arch_;
  bool permutes_ = false;
  GgufBuilder file_;
};

class GgufFamilyTest : public testing::TestWithParam<const char*> {};

TEST_P(GgufFamilyTest, Float32MatchesTheReference) {
  const std::string name = GetParam();
  const auto folder = golden_dir() / "tiny" / name;
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not here";
  const model::test::TempDir dir;
  const std::string path = dir.write(name + ".gguf", Converter(folder).bytes());
  const auto cases = read_cases(folder / "golden.json", folder / "golden.npz");
  for (size_t n = 0; n < cases.size(); ++n) {
    HarnessOptions options = exact_options();
    if (name == "phi3-longrope" && n < 2) options.max_context = 64;  // as in tiny_test.cc
    ModelHarness model(path, options);
    EXPECT_LE(logit_error(model, cases[n]).max, 2e-3) << cases[n].ids.size() << " ids";
    expect_greedy(model, cases[n], 2e-3, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GgufFamilyTest,
                         testing::Values("gemma2", "phi3", "phi3-longrope", "granite", "starcoder2", "gpt2",
                                         "mixtral", "qwen3-moe"),
                         [](const auto& test) {
                           std::string name = test.param;
                           for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return name;
                         });

}  // namespace
}  // namespace pagoda::testing_support
