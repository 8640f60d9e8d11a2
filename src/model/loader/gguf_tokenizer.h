// A GGUF vocabulary as the text of a tokenizer.json, so that one tokenizer implementation serves both file
// formats.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pagoda::model {

// The tokenizer.ggml.* values of a GGUF file, as read: nothing in it is trusted. The index in `tokens` is the
// id.
struct GgufVocabulary {
  std::string model;  // tokenizer.ggml.model: "gpt2" (byte-level BPE) or "llama" (SentencePiece BPE)
  std::string pre;    // tokenizer.ggml.pre; empty when absent
  std::vector<std::string> tokens;   // tokenizer.ggml.tokens
  std::vector<float> scores;         // tokenizer.ggml.scores; required by "llama", ignored by "gpt2"
  std::vector<int32_t> token_types;  // tokenizer.ggml.token_type; empty when absent (all tokens normal)
  std::vector<std::string> merges;   // tokenizer.ggml.merges, "left right"; required by "gpt2"
  std::optional<int64_t> bos_id, eos_id, unk_id;  // tokenizer.ggml.{bos,eos,unknown}_token_id
  std::optional<bool> add_bos, add_eos;           // tokenizer.ggml.add_{bos,eos}_token
  std::optional<bool> add_space_prefix;  // tokenizer.ggml.add_space_prefix ("llama": true when absent)
};

// kCorruptFile when the parts contradict each other (sizes, ids, merges of unknown tokens, text that is not
// UTF-8), kUnsupportedModel for a tokenizer model or pre-tokenizer that is not known; the message lists those
// that are. Messages do not name the file: the caller adds its path.
Result<std::string> gguf_tokenizer_json(const GgufVocabulary& vocabulary);

// The values of tokenizer.ggml.pre that gguf_tokenizer_json accepts, for messages and documentation.
std::vector<std::string_view> supported_gguf_pre_tokenizers();

}  // namespace pagoda::model
