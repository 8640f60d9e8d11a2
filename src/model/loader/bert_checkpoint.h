// A BERT encoder on disk: a Hugging Face folder with config.json, safetensors, and tokenizer.json or
// vocab.txt.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "model/embedder.h"
#include "model/tensor_source.h"

namespace pagoda::model {

struct EncoderConfig {
  int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0;
  int num_layers = 0, num_heads = 0;
  int64_t max_positions = 0;  // of the position table
  int64_t type_vocab_size = 0;
  float layer_norm_eps = 1e-12f;

  int head_dim() const { return static_cast<int>(hidden_size / num_heads); }
};

struct EncoderCheckpoint {
  std::string path, name, format;
  EncoderConfig config;
  PoolingConfig pooling;
  int64_t max_tokens = 0;      // that the model was trained for: max_seq_length, else max_positions
  std::string tokenizer_json;  // tokenizer.json, or made from vocab.txt
  std::string prefix;          // of tensor names: "" or "bert."
  std::unique_ptr<TensorSource> tensors;
};

// Whether config.json of this folder says that it is such a model. False for whatever can't be read.
bool is_encoder_folder(const std::string& path);

// Every number in it is distrusted. kIo, kCorruptFile or kUnsupportedModel in one line.
Result<EncoderCheckpoint> open_encoder_checkpoint(const std::string& folder);

// The tokenizer.json that goes with a BERT vocabulary of one token a line. kCorruptFile naming `path` when it
// lacks [UNK], [CLS] or [SEP].
Result<std::string> wordpiece_tokenizer_json(const std::string& path, const std::string& vocab,
                                             bool lower_case);

}  // namespace pagoda::model
