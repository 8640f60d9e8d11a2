// What the keys of a GGUF file say about the model and its vocabulary.
#pragma once

#include "base/result.h"
#include "model/checkpoint.h"
#include "model/config.h"
#include "model/loader/gguf_file.h"
#include "model/loader/gguf_source.h"
#include "model/loader/gguf_tokenizer.h"

namespace pagoda::model {

// From general.architecture. kUnsupportedModel when it can't be run.
Result<Architecture> gguf_architecture(const GgufFile& file);

// The configuration, without token ids; presence of biases and of an own output head comes from the tensors.
// Tells `tensors` whether q and k rows are interleaved. Not yet checked by check_config.
Result<ModelConfig> gguf_model_config(const GgufFile& file, Architecture architecture,
                                      GgufTensorSource& tensors);

// tokenizer.ggml.*; kCorruptFile where the lists disagree in length. Empty `tokens`: the file has no
// vocabulary.
Result<GgufVocabulary> gguf_vocabulary(const GgufFile& file);

// general.sampling.*
Result<GenerationDefaults> gguf_generation_defaults(const GgufFile& file);

// BOS, the tokens that end a generation, and the texts of special tokens, into `checkpoint`.
Result<void> read_gguf_special_tokens(const GgufFile& file, const GgufVocabulary& vocabulary,
                                      Checkpoint& checkpoint);

}  // namespace pagoda::model
