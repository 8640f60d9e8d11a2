#include "model/loader/bert_checkpoint.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "model/encoder.h"
#include "model/loader/sentence_files.h"
#include "model_files.h"

namespace pagoda::model {
namespace {

using namespace test;
using Tensors = std::vector<std::pair<std::string, std::vector<int64_t>>>;

constexpr const char* kConfig =
    R"({"model_type":"bert","vocab_size":8,"hidden_size":32,"intermediate_size":48,
  "num_hidden_layers":1,"num_attention_heads":2,"max_position_embeddings":16,"type_vocab_size":2,
  "hidden_act":"gelu","layer_norm_eps":1e-12)";
constexpr const char* kModules = R"([{"path":"","type":"sentence_transformers.models.Transformer"},
  {"path":"1_Pooling","type":"sentence_transformers.models.Pooling"})";

void add(Tensors& tensors, const std::string& name, int64_t rows, int64_t depth) {
  tensors.push_back({name + ".weight", {rows, depth}});
  tensors.push_back({name + ".bias", {rows}});
}
void add_norm(Tensors& tensors, const std::string& name) {
  tensors.push_back({name + ".weight", {32}});
  tensors.push_back({name + ".bias", {32}});
}

Tensors tiny_tensors(const std::string& prefix) {
  Tensors tensors = {{prefix + "embeddings.word_embeddings.weight", {8, 32}},
                     {prefix + "embeddings.position_embeddings.weight", {16, 32}},
                     {prefix + "embeddings.token_type_embeddings.weight", {2, 32}}};
  add_norm(tensors, prefix + "embeddings.LayerNorm");
  const std::string layer = prefix + "encoder.layer.0.";
  for (const char* const part : {"query", "key", "value"})
    add(tensors, layer + "attention.self." + part, 32, 32);
  add(tensors, layer + "attention.output.dense", 32, 32);
  add_norm(tensors, layer + "attention.output.LayerNorm");
  add(tensors, layer + "intermediate.dense", 48, 32);
  add(tensors, layer + "output.dense", 32, 48);
  add_norm(tensors, layer + "output.LayerNorm");
  return tensors;
}

class BertCheckpoint : public ::testing::Test {
 protected:
  BertCheckpoint() {
    config();
    dir_.write("model.safetensors", f32_safetensors(tiny_tensors("")));
    dir_.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n##b\nc\r\nd");
  }
  void config(const std::string& more = "") { dir_.write("config.json", kConfig + more + "}"); }
  void pooling(const std::string& config, const std::string& modules = "") {
    dir_.write("modules.json", kModules + modules + "]");
    std::filesystem::create_directories(std::string(dir_.path()) + "/1_Pooling");
    dir_.write("1_Pooling/config.json", config);
  }
  // Of opening or loading; "" for success.
  std::string error() {
    const auto checkpoint = open_encoder_checkpoint(dir_.path());
    if (!checkpoint) return one_line(checkpoint.error().message);
    ComputePool pool(1);
    EncoderOptions options;
    options.max_tokens = checkpoint->max_tokens;
    const auto encoder = load_encoder(*checkpoint, options, pool);
    return encoder ? "" : one_line(encoder.error().message);
  }
  void expect_error(const std::string& part) { EXPECT_NE(error().find(part), std::string::npos) << error(); }
  std::string one_line(const std::string& message) {
    EXPECT_EQ(message.find('\n'), std::string::npos);
    EXPECT_EQ(message.find(dir_.path()), 0u) << message;
    return message;
  }

  TempDir dir_;
};

TEST_F(BertCheckpoint, OpensAFolder) {
  EXPECT_TRUE(is_encoder_folder(dir_.path()));
  const auto checkpoint = open_encoder_checkpoint(dir_.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->config.head_dim(), 16);
  EXPECT_EQ(checkpoint->max_tokens, 16);
  EXPECT_EQ(checkpoint->pooling.pooling, Pooling::kMean);
  EXPECT_TRUE(checkpoint->pooling.normalize);
  EXPECT_EQ(error(), "");
}

TEST_F(BertCheckpoint, TensorsMayHaveThePrefixOfATask) {
  dir_.write("model.safetensors", f32_safetensors(tiny_tensors("bert.")));
  EXPECT_EQ(error(), "");
}

TEST_F(BertCheckpoint, OtherFoldersAreNone) {
  EXPECT_FALSE(is_encoder_folder("/nonexistent"));
  EXPECT_FALSE(is_encoder_folder(std::string(dir_.path()) + "/config.json"));
  dir_.write("config.json", "{");
  EXPECT_FALSE(is_encoder_folder(dir_.path()));
  dir_.write("config.json", R"({"model_type":"llama"})");
  EXPECT_FALSE(is_encoder_folder(dir_.path()));
}

TEST_F(BertCheckpoint, WhatSentenceTransformersSays) {
  pooling(R"({"pooling_mode_cls_token":true})");
  dir_.write("sentence_bert_config.json", R"({"max_seq_length":9})");
  auto checkpoint = open_encoder_checkpoint(dir_.path());
  ASSERT_TRUE(checkpoint);
  EXPECT_EQ(checkpoint->pooling.pooling, Pooling::kCls);
  EXPECT_FALSE(checkpoint->pooling.normalize);
  EXPECT_EQ(checkpoint->max_tokens, 9);
  pooling(R"({"pooling_mode_mean_tokens":true})", R"(,{"path":"2","type":"x.models.Normalize"})");
  dir_.write("sentence_bert_config.json", R"({"max_seq_length":900})");
  checkpoint = open_encoder_checkpoint(dir_.path());
  ASSERT_TRUE(checkpoint);
  EXPECT_EQ(checkpoint->pooling.pooling, Pooling::kMean);
  EXPECT_TRUE(checkpoint->pooling.normalize);
  EXPECT_EQ(checkpoint->max_tokens, 16);
}

TEST_F(BertCheckpoint, OtherModulesAndWaysAreRefused) {
  pooling(R"({"pooling_mode_max_tokens":true})");
  expect_error("pooling_mode_max_tokens");
  pooling(R"({"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":true})");
  expect_error("several ways");
  pooling("{}");
  expect_error("no way of pooling");
  pooling(R"({"pooling_mode_cls_token":1})");
  expect_error("pooling_mode_cls_token");
  pooling(R"({"pooling_mode_cls_token":true})", R"(,{"path":"2_Dense","type":"x.models.Dense"})");
  expect_error("Dense");
  dir_.write("modules.json", R"([{"path":"../x","type":"x.Pooling"}])");
  expect_error("is no folder beside it");
  dir_.write("modules.json", "{}");
  expect_error("is no JSON list");
  dir_.write("modules.json", "[1]");
  expect_error("something else than objects");
  dir_.write("modules.json", "[]");
  dir_.write("sentence_bert_config.json", R"({"max_seq_length":0})");
  expect_error("max_seq_length");
}

TEST_F(BertCheckpoint, WrongConfigurationsAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("hidden_act":"relu")", "hidden_act"},
      {R"("position_embedding_type":"relative_key")", "position_embedding_type"},
      {R"("is_decoder":true)", "is_decoder"},
      {R"("vocab_size":0)", "vocab_size"},
      {R"("vocab_size":9)", "word_embeddings"},
      {R"("hidden_size":-1)", "hidden_size"},
      {R"("hidden_size":64)", "shape"},
      {R"("num_attention_heads":3)", "heads"},
      {R"("num_attention_heads":0)", "num_attention_heads"},
      {R"("num_hidden_layers":2)", "encoder.layer.1"},
      {R"("num_hidden_layers":2147483648)", "num_hidden_layers"},
      {R"("intermediate_size":47)", "shape"},
      {R"("max_position_embeddings":17)", "position_embeddings"},
      {R"("type_vocab_size":3)", "token_type_embeddings"},
      {R"("layer_norm_eps":-1)", "layer_norm_eps"}};
  for (const auto& [field, part] : cases) {
    // Repeated keys: the last one counts.
    config("," + std::string(field));
    EXPECT_NE(error().find(part), std::string::npos) << field << ": " << error();
  }
}

TEST_F(BertCheckpoint, MissingTensorsAndTokenizersAreNamed) {
  for (const auto& [name, shape] : tiny_tensors("")) {
    if (name == "embeddings.word_embeddings.weight") continue;  // tells the prefix
    Tensors tensors = tiny_tensors("");
    std::erase_if(tensors, [&](const auto& tensor) { return tensor.first == name; });
    dir_.write("model.safetensors", f32_safetensors(tensors));
    EXPECT_NE(error().find(name), std::string::npos) << error();
  }
  dir_.write("vocab.txt", "a\nb\n");
  expect_error("lacks [UNK]");
  std::filesystem::remove(std::string(dir_.path()) + "/vocab.txt");
  expect_error("neither tokenizer.json nor vocab.txt");
}

TEST(WordpieceTokenizer, HasEveryLine) {
  const auto text = wordpiece_tokenizer_json("v", "[UNK]\n[CLS]\r\n[SEP]\nx\n\xff\n##y", true);
  ASSERT_TRUE(text);
  const auto json = nlohmann::json::parse(*text);
  EXPECT_EQ(json["model"]["vocab"]["[CLS]"], 1);
  EXPECT_EQ(json["model"]["vocab"]["##y"], 5);
  EXPECT_EQ(json["added_tokens"].size(), 3u);
}

TEST(PoolerTest, ThreeWays) {
  const float rows[3][2] = {{1, 2}, {3, 4}, {8, 6}};
  const std::pair<Pooling, std::vector<float>> cases[] = {
      {Pooling::kCls, {1, 2}}, {Pooling::kMean, {4, 4}}, {Pooling::kLast, {8, 6}}};
  for (const auto& [pooling, expected] : cases) {
    Pooler pooler({pooling, false}, 2);
    std::vector<float> vector(2);
    for (int round = 0; round < 2; ++round) {  // begin() forgets
      pooler.begin();
      for (const auto& row : rows) pooler.add(row);
      pooler.finish(vector);
      EXPECT_EQ(vector, expected) << pooling_name(pooling);
    }
    EXPECT_EQ(pooling_from_name(pooling_name(pooling)), pooling);
  }
  EXPECT_EQ(pooling_from_name("MEAN"), Pooling::kMean);
  EXPECT_EQ(pooling_from_name("max"), std::nullopt);
  std::vector<float> zero = {0, 0}, vector = {3, -4};
  normalize(zero);
  normalize(vector);
  EXPECT_EQ(zero, (std::vector<float>{0, 0}));
  EXPECT_EQ(vector, (std::vector<float>{0.6f, -0.8f}));
}

}  // namespace
}  // namespace pagoda::model
