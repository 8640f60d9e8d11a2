#include "model/loader/hf_checkpoint.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model_files.h"
#include "support/shared_data.h"

namespace pagoda::model {
namespace {

using namespace test;
using Tensors = std::vector<std::pair<std::string, std::vector<int64_t>>>;

constexpr const char* kConfig = R"({"architectures":["LlamaForCausalLM"],"vocab_size":8,"hidden_size":32,
  "intermediate_size":48,"num_hidden_layers":1,"num_attention_heads":2,"num_key_value_heads":1,
  "max_position_embeddings":64,"rms_norm_eps":1e-5,"eos_token_id":2)";

Tensors tiny_tensors() {
  const std::string layer = "model.layers.0.";
  return {{"model.embed_tokens.weight", {8, 32}},
          {layer + "self_attn.q_proj.weight", {32, 32}},
          {layer + "self_attn.k_proj.weight", {16, 32}},
          {layer + "self_attn.v_proj.weight", {16, 32}},
          {layer + "self_attn.o_proj.weight", {32, 32}},
          {layer + "mlp.gate_proj.weight", {48, 32}},
          {layer + "mlp.up_proj.weight", {48, 32}},
          {layer + "mlp.down_proj.weight", {32, 48}},
          {layer + "input_layernorm.weight", {32}},
          {layer + "post_attention_layernorm.weight", {32}},
          {"model.norm.weight", {32}}};
}
const std::pair<std::string, std::vector<int64_t>> kHead = {"lm_head.weight", {8, 32}};

class HfCheckpoint : public ::testing::Test {
 protected:
  HfCheckpoint() {
    config();
    Tensors tensors = tiny_tensors();
    tensors.push_back(kHead);
    weights(tensors);
  }
  void config(const std::string& more = "") { dir_.write("config.json", kConfig + more + "}"); }
  void weights(const Tensors& tensors) { dir_.write("model.safetensors", f32_safetensors(tensors)); }
  std::string error() {
    const auto checkpoint = open_checkpoint(dir_.path());
    if (checkpoint) return "";
    EXPECT_EQ(checkpoint.error().message.find('\n'), std::string::npos);
    EXPECT_EQ(checkpoint.error().message.find(dir_.path()), 0u) << checkpoint.error().message;
    return checkpoint.error().message;
  }
  void expect_error(const std::string& part) { EXPECT_NE(error().find(part), std::string::npos) << error(); }

  TempDir dir_;
};

TEST_F(HfCheckpoint, OpensACompleteFolder) {
  for (const std::string& path : {dir_.path(), dir_.path() + "/"}) {
    const auto checkpoint = open_checkpoint(path);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    EXPECT_EQ(checkpoint->name, std::filesystem::path(dir_.path()).filename().string());
    EXPECT_EQ(checkpoint->format, "safetensors (F32)");
    EXPECT_GT(checkpoint->file_bytes, 0u);
    EXPECT_TRUE(checkpoint->tokenizer_json.empty());
    EXPECT_TRUE(checkpoint->chat_template.empty());
    EXPECT_FALSE(checkpoint->add_bos_token);
    // Hugging Face rows are in the order that is asked for.
    std::vector<float> row(32);
    (*checkpoint->tensors->matrix("model.layers.0.self_attn.q_proj.weight", 32, 32))
        ->read_values(1, 1, row.data());
    EXPECT_EQ(row[3], 35.0f);
  }
}

TEST_F(HfCheckpoint, TiedEmbeddingsMatrix) {
  config(R"(,"tie_word_embeddings":true)");
  EXPECT_EQ(error(), "");  // tied, present: ignored
  weights(tiny_tensors());
  EXPECT_EQ(error(), "");  // tied, absent
  const auto tied = open_checkpoint(dir_.path());
  ASSERT_TRUE(tied);
  EXPECT_TRUE(tied->config.tied_embeddings);
  for (const char* const untied : {"", R"(,"tie_word_embeddings":false)"}) {
    config(untied);
    expect_error("tensor 'lm_head.weight' is missing");
  }
}

TEST_F(HfCheckpoint, RefusesTensorsThatDoNotFit) {
  Tensors tensors = tiny_tensors();
  tensors.push_back({"lm_head.weight", {9, 32}});
  weights(tensors);
  expect_error("tensor 'lm_head.weight' at offset");
  tensors = tiny_tensors();
  tensors.push_back(kHead);
  tensors.push_back({"model.layers.0.self_attn.q_proj.bias", {32}});
  weights(tensors);
  expect_error("'model.layers.0.self_attn.q_proj.bias' is no part of a llama model");
  tensors.back() = {"model.layers.0.self_attn.rotary_emb.inv_freq", {8}};
  weights(tensors);
  EXPECT_EQ(error(), "");
  config(R"(,"attention_bias":true)");
  expect_error("'model.layers.0.self_attn.q_proj.bias' is missing");
}

// The parts of a GPTQ matrix with 4 bits and one group: every weight is 1.5.
void add_gptq(std::vector<RawTensor>& tensors, const std::string& stem, int64_t rows, int64_t depth) {
  const auto bytes = [](int64_t words, char byte) {
    return std::string(static_cast<size_t>(words * 4), byte);
  };
  std::string scales;
  for (int64_t n = 0; n < rows; ++n) scales += le(uint16_t{0x3800});  // 0.5
  tensors.push_back({stem + ".qweight", "I32", {depth / 8, rows}, bytes(depth / 8 * rows, '\x33')});
  tensors.push_back({stem + ".qzeros", "I32", {1, rows / 8}, bytes(rows / 8, '\xff')});  // 0, minus one
  tensors.push_back({stem + ".scales", "F16", {1, rows}, scales});
}

// A folder whose layers and head are quantised but for `plain`, as modules_to_not_convert would have it.
std::vector<RawTensor> gptq_tensors(const std::string& plain) {
  std::vector<RawTensor> out;
  Tensors all = tiny_tensors();
  all.push_back(kHead);
  for (const auto& [name, shape] : all) {
    const bool is_matrix = shape.size() == 2 && name != "model.embed_tokens.weight";
    if (is_matrix && name != plain + ".weight") {
      add_gptq(out, name.substr(0, name.size() - sizeof(".weight") + 1), shape[0], shape[1]);
      continue;
    }
    int64_t count = 1;
    for (const int64_t dim : shape) count *= dim;
    out.push_back({name, "F32", shape, std::string(static_cast<size_t>(count * 4), '\0')});
  }
  return out;
}

TEST_F(HfCheckpoint, QuantisedFolders) {
  const std::string o_proj = "model.layers.0.self_attn.o_proj", head = "lm_head";
  config(R"(,"quantization_config":{"quant_method":"gptq","bits":4,"group_size":-1,"desc_act":false})");
  for (const std::string& plain : {o_proj, head, std::string("none")}) {
    dir_.write("model.safetensors", raw_safetensors(gptq_tensors(plain)));
    const auto checkpoint = open_checkpoint(dir_.path());
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    EXPECT_EQ(checkpoint->quantization, "gptq 4-bit per channel");
    EXPECT_EQ(checkpoint->format, "safetensors (F32, gptq 4-bit per channel)");
    for (const auto& [stem, rows] : {std::pair(o_proj, 32), std::pair(head, 8)}) {
      const auto reader = checkpoint->tensors->matrix(stem + ".weight", rows, 32);
      ASSERT_TRUE(reader) << reader.error().message;
      EXPECT_EQ((*reader)->scheme().bits, stem == plain ? 0 : 4) << stem;
      std::vector<float> row(32);
      (*reader)->read_values(1, 1, row.data());
      EXPECT_EQ(row[31], stem == plain ? 0.0f : 1.5f);
    }
    EXPECT_FALSE(open_checkpoint(dir_.path(), "awq"));
    EXPECT_TRUE(open_checkpoint(dir_.path(), "gptq"));
  }
}

TEST_F(HfCheckpoint, QuantisedFoldersThatAreWrong) {
  const std::string start = R"(,"quantization_config":{"quant_method":"gptq","bits":)";
  dir_.write("model.safetensors", raw_safetensors(gptq_tensors("none")));
  config(start + R"(4,"group_size":16})");
  expect_error("qzeros' at offset");
  expect_error("has shape [1, 4] instead of [2, 4]");
  config(start + R"(8,"group_size":-1})");
  expect_error("has shape [4, 32] instead of [8, 32]");
  config(start + R"(3,"group_size":-1})");
  expect_error("GPTQ with 3 bits can't be run");
  config(R"(,"quantization_config":{"quant_method":"quip"})");
  expect_error("quantised with 'quip', which can't be run");
  config();
  expect_error("tensor 'model.layers.0.self_attn.q_proj.weight' is missing");
  config(start + R"(4,"group_size":-1})");
  for (const char* const part : {"k_proj.qweight", "k_proj.qzeros", "k_proj.scales"}) {
    auto tensors = gptq_tensors("none");
    std::erase_if(tensors, [&](const RawTensor& tensor) { return tensor.name.ends_with(part); });
    dir_.write("model.safetensors", raw_safetensors(tensors));
    expect_error(std::string("tensor 'model.layers.0.self_attn.") + part + "' is missing");
  }
}

TEST_F(HfCheckpoint, FindsTheTextModelOfAMultimodalFolder) {
  for (const char* const prefix : {"language_model.model.", "model.language_model."}) {
    Tensors tensors = tiny_tensors();
    for (auto& [name, shape] : tensors) name = prefix + name.substr(sizeof("model.") - 1);
    tensors.push_back({prefix[0] == 'l' ? "language_model.lm_head.weight" : "lm_head.weight", {8, 32}});
    tensors.push_back({"vision_tower.x.weight", {3}});
    weights(tensors);
    EXPECT_EQ(error(), "") << prefix;
  }
}

TEST_F(HfCheckpoint, ShardsAndTheirIndex) {
  Tensors first = tiny_tensors();
  std::filesystem::remove(dir_.path() + "/model.safetensors");
  expect_error("neither model.safetensors nor model.safetensors.index.json");
  dir_.write("a.safetensors", f32_safetensors(first));
  dir_.write("b.safetensors", f32_safetensors({kHead}));
  std::string map;
  for (const auto& [name, shape] : first) map += "\"" + name + R"(":"a.safetensors",)";
  const auto index = [&](const std::string& head_file) {
    dir_.write("model.safetensors.index.json",
               R"({"weight_map":{)" + map + R"("lm_head.weight":)" + head_file + "}}");
  };
  index(R"("b.safetensors")");
  EXPECT_EQ(error(), "");
  const auto whole = open_checkpoint(dir_.path());
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->file_bytes, f32_safetensors(first).size() + f32_safetensors({kHead}).size());
  index(R"("a.safetensors")");
  expect_error("lacks tensor 'lm_head.weight'");
  index(R"("c.safetensors")");
  expect_error("c.safetensors is missing");
  for (const char* const escape :
       {R"("../b.safetensors")", R"("/b.safetensors")", R"("x/b.safetensors")", R"("")", R"("..")",
        R"("b.bin")", R"(".safetensors")", R"("b\u0000.safetensors")"}) {
    index(escape);
    expect_error("no safetensors file in the same folder");
  }
  index("3");
  expect_error("gives 'lm_head.weight' no file name");
  dir_.write("model.safetensors.index.json", "{}");
  expect_error("weight_map");
}

TEST_F(HfCheckpoint, ReadsTokenizerFiles) {
  dir_.write("tokenizer.json", "{\"model\":{}}");
  dir_.write("tokenizer_config.json", R"({"bos_token":{"content":"<s>","lstrip":false},"eos_token":"</s>",
    "unk_token":null,"add_bos_token":true,"model_max_length":1e30,"chat_template":"plain"})");
  auto checkpoint = open_checkpoint(dir_.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->tokenizer_json, "{\"model\":{}}");
  EXPECT_EQ(checkpoint->bos_token, "<s>");
  EXPECT_EQ(checkpoint->eos_token, "</s>");
  EXPECT_EQ(checkpoint->unk_token, "");
  EXPECT_EQ(checkpoint->add_bos_token, true);
  EXPECT_EQ(checkpoint->chat_template, "plain");
  EXPECT_NE(checkpoint->tokenizer_config_json.find("1e30"), std::string::npos);

  dir_.write("tokenizer_config.json",
             R"({"chat_template":[{"name":"tool_use","template":"t"},{"name":"default","template":"d"}]})");
  EXPECT_EQ(open_checkpoint(dir_.path())->chat_template, "d");
  dir_.write("chat_template.jinja", "file");
  EXPECT_EQ(open_checkpoint(dir_.path())->chat_template, "file");

  dir_.write("tokenizer_config.json", R"({"eos_token":5})");
  expect_error("'eos_token'");
  dir_.write("tokenizer_config.json", R"({"chat_template":["x"]})");
  expect_error("'chat_template'");
}

TEST_F(HfCheckpoint, RefusesBrokenJson) {
  dir_.write("config.json", "{");
  expect_error("config.json: is not valid JSON at offset");
  dir_.write("config.json", "[]");
  expect_error("instead of an object");
  dir_.write("config.json", R"({"rope_theta":NaN})");
  expect_error("not valid JSON");
  dir_.write("config.json", R"({"rope_theta":1e999})");
  expect_error("config.json");
  std::string deep = "{\"architectures\":";
  deep += std::string(2000000, '[') + std::string(2000000, ']') + "}";
  dir_.write("config.json", deep);
  expect_error("names no architecture");
  dir_.write("config.json", "\xef\xbb\xbf" + std::string(kConfig) + "}");  // a byte order mark is fine
  EXPECT_EQ(error(), "");
  dir_.write("config.json", std::string((16 << 20) + 1, ' '));
  expect_error("the limit is");
}

TEST(TinyCheckpoints, AllOpen) {
  const auto shared = testing_support::shared_dir();
  if (!shared) GTEST_SKIP() << "opens every folder of shared/golden/tiny, which is not here";
  struct Expected {
    const char* name;
    const char* format;
  };
  for (const Expected& tiny : std::initializer_list<Expected>{{"llama-tied-f32", "safetensors (F32)"},
                                                              {"llama3-rope-sharded", "safetensors (BF16)"},
                                                              {"llama-spm-bias", "safetensors (F16)"},
                                                              {"mistral-swa", "safetensors (BF16)"},
                                                              {"qwen2", "safetensors (BF16)"},
                                                              {"qwen3", "safetensors (BF16)"},
                                                              {"gemma3", "safetensors (BF16)"},
                                                              {"gemma2", "safetensors (BF16)"},
                                                              {"phi3", "safetensors (BF16)"},
                                                              {"phi3-longrope", "safetensors (BF16)"},
                                                              {"starcoder2", "safetensors (F32)"},
                                                              {"gpt2", "safetensors (F32)"},
                                                              {"granite", "safetensors (BF16)"},
                                                              {"qwen3-moe", "safetensors (BF16)"},
                                                              {"mixtral", "safetensors (BF16)"}}) {
    const auto checkpoint = open_checkpoint((*shared / "golden/tiny" / tiny.name).string());
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    EXPECT_EQ(checkpoint->format, tiny.format) << tiny.name;
    EXPECT_FALSE(checkpoint->tokenizer_json.empty()) << tiny.name;
    EXPECT_FALSE(checkpoint->chat_template.empty()) << tiny.name;
    EXPECT_FALSE(checkpoint->config.eos.empty()) << tiny.name;
  }
  for (const auto& [name, format] : std::initializer_list<std::pair<const char*, const char*>>{
           {"awq-4bit-g128", "safetensors (F16, awq 4-bit g128)"},
           {"gptq-4bit-gall-sym", "safetensors (F16, gptq 4-bit per channel)"},
           {"ct-w8a8", "safetensors (F16, compressed-tensors 8-bit per channel)"}}) {
    const auto quantised = open_checkpoint((*shared / "golden/quant" / name).string());
    ASSERT_TRUE(quantised) << quantised.error().message;
    EXPECT_EQ(quantised->format, format);
  }
  const auto llama = open_checkpoint((*shared / "golden/tiny/llama-tied-f32").string());
  EXPECT_EQ(llama->generation.temperature, 0.7);
  EXPECT_EQ(llama->generation.top_p, 0.9);
  const auto gemma = open_checkpoint((*shared / "golden/tiny/gemma3").string());
  EXPECT_EQ(gemma->config.layer_window, (std::vector<int64_t>{24, 24, 0, 24}));
  EXPECT_FLOAT_EQ(gemma->config.attention_scale, 1 / std::sqrt(40.0f));
}

}  // namespace
}  // namespace pagoda::model
