// A small Llama in a folder, for tests that quantise it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/rng.h"
#include "quantize/writer/safetensors_writer.h"
#include "tensor/half.h"

namespace pagoda::quantize::test {

struct TinySizes {
  int64_t vocab = 64, hidden = 64, feed_forward = 128;
  int layers = 2;
};

inline std::string temporary_folder(const std::string& name) {
  const auto path = std::filesystem::temp_directory_path() / ("pagoda_quantize_" + name);
  std::filesystem::remove_all(path);
  std::filesystem::remove_all(path.string() + ".partial");
  return path.string();
}

inline OutTensor bf16_tensor(const std::string& name, std::vector<int64_t> shape, float spread, float centre,
                             uint64_t& seed) {
  int64_t count = 1;
  for (const int64_t dim : shape) count *= dim;
  ++seed;
  std::vector<uint8_t> bytes;
  for (int64_t i = 0; i < count; ++i) {
    const auto index = static_cast<uint64_t>(i);
    const double draw = uniform01(seed, 0, index) + uniform01(seed, 1, index) - 1.0;
    const uint16_t half = f32_to_bf16(centre + spread * static_cast<float>(draw));
    bytes.push_back(static_cast<uint8_t>(half & 0xff));
    bytes.push_back(static_cast<uint8_t>(half >> 8));
  }
  return tensor_of(name, "BF16", std::move(shape), std::move(bytes));
}

inline std::vector<OutTensor> tiny_tensors(const TinySizes& sizes) {
  const int64_t hidden = sizes.hidden, width = sizes.feed_forward, kv = hidden / 2;
  uint64_t seed = 10;
  std::vector<OutTensor> tensors;
  const auto matrix = [&](const std::string& name, int64_t rows, int64_t depth) {
    tensors.push_back(bf16_tensor(name, {rows, depth}, 0.2f, 0, seed));
  };
  const auto norm = [&](const std::string& name) {
    tensors.push_back(bf16_tensor(name, {hidden}, 0.3f, 1, seed));
  };
  matrix("model.embed_tokens.weight", sizes.vocab, hidden);
  for (int layer = 0; layer < sizes.layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    norm(prefix + "input_layernorm.weight");
    norm(prefix + "post_attention_layernorm.weight");
    matrix(prefix + "self_attn.q_proj.weight", hidden, hidden);
    matrix(prefix + "self_attn.k_proj.weight", kv, hidden);
    matrix(prefix + "self_attn.v_proj.weight", kv, hidden);
    matrix(prefix + "self_attn.o_proj.weight", hidden, hidden);
    matrix(prefix + "mlp.gate_proj.weight", width, hidden);
    matrix(prefix + "mlp.up_proj.weight", width, hidden);
    matrix(prefix + "mlp.down_proj.weight", hidden, width);
  }
  norm("model.norm.weight");
  return tensors;
}

inline nlohmann::json tiny_config(const TinySizes& sizes) {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"vocab_size", sizes.vocab},
          {"hidden_size", sizes.hidden},
          {"intermediate_size", sizes.feed_forward},
          {"num_hidden_layers", sizes.layers},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"max_position_embeddings", 512},
          {"rms_norm_eps", 1e-5},
          {"tie_word_embeddings", true},
          {"bos_token_id", 1},
          {"eos_token_id", 2}};
}

// The path of a folder with the model.
inline std::string make_tiny_model(const std::string& name, const TinySizes& sizes = {}) {
  const std::string folder = temporary_folder(name);
  std::filesystem::create_directory(folder);
  std::ofstream(folder + "/config.json") << tiny_config(sizes);
  std::ofstream(folder + "/tokenizer_config.json") << R"({"bos_token": "<s>"})";
  const auto tensors = tiny_tensors(sizes);
  if (!write_safetensors(folder + "/model.safetensors", tensors)) std::abort();
  return folder;
}

}  // namespace pagoda::quantize::test
