// A model on disk, opened and checked but not yet packed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/config.h"
#include "model/tensor_source.h"

namespace pagoda::model {

// Sampling defaults of generation_config.json; absent fields keep the API's own defaults.
struct GenerationDefaults {
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<int64_t> top_k, max_new_tokens;
};

// A file of weights as it was when it was opened.
struct ModelFile {
  std::string path;
  uint64_t bytes = 0;
  int64_t modified_ns = 0;  // since 1970
};

// The control tokens of filling in the middle that a GGUF file names (tokenizer.ggml.fim_*_token_id).
struct FimTokens {
  std::optional<TokenId> prefix, suffix, middle, pad, repo, separator;
};

// Checkpoint::rounding of floats in the token embedding and the output head alone.
inline constexpr char kHeadRounding[] = "int8-head";

struct Checkpoint {
  std::string path;
  std::vector<ModelFile> files;  // those with weights
  std::string quantization;  // how the weights of a folder are quantised: "gptq 4-bit g128"; empty: floats
  // "int8", "int4" or kHeadRounding when floats are rounded while they are read
  std::string rounding;
  std::string packed_cache;  // the file to keep packed weights in (packed_cache.h); empty: none
  std::string name;          // default served model name: the file or folder name without extension
  std::string format;        // for people: "GGUF v3 (Q4_1 210, F32 61, Q8_0 1)", "safetensors (BF16)"
  uint64_t file_bytes = 0;
  ModelConfig config;
  GenerationDefaults generation;
  // Text of tokenizer.json, made in memory from a GGUF vocabulary. Empty: none in the checkpoint.
  std::string tokenizer_json;
  std::string tokenizer_config_json;  // text of tokenizer_config.json; empty when there is none
  std::string chat_template;          // Jinja source; empty when the model has none
  // As the chat template sees them; empty when absent.
  std::string bos_token, eos_token, pad_token, unk_token;
  FimTokens fim;
  std::optional<bool> add_bos_token;  // what the file says about adding BOS to plain prompts
  std::unique_ptr<TensorSource> tensors;
};

// Opens a GGUF file (or the first of a split set) or a Hugging Face folder. Every number in it is distrusted.
// `quantization` is what --quantization names: "auto"; a method that the checkpoint has to have ("gptq",
// "awq", "compressed-tensors", "bitsandbytes", "gguf"); "int8" or "int4", which float weights are rounded to
// while they are read; or "bf16" or "fp16" for a checkpoint that has to be of floats. kIo, kCorruptFile,
// kUnsupportedModel or kInvalidArgument, in one line that names the file and what in it.
Result<Checkpoint> open_checkpoint(const std::string& path, const std::string& quantization = "auto");

// From now on the token embedding and the output head are read rounded to 8 bits, if they are floats
// (loader/rounded_source.h).
void round_head(Checkpoint& checkpoint);

}  // namespace pagoda::model
