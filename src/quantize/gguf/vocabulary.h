// tokenizer.json as the keys tokenizer.* of a GGUF file.
#pragma once

#include "base/result.h"
#include "model/checkpoint.h"
#include "quantize/gguf/metadata.h"

namespace pagoda::quantize {

// Byte-level BPE, or SentencePiece's BPE; the tokens are filled up to the rows of the embedding, of which
// there have to be as many. kUnsupportedModel for other tokenizers and for ways of splitting words that have
// no name in the format; kCorruptFile when tokenizer.json contradicts itself.
Result<void> write_vocabulary(const model::Checkpoint& checkpoint, GgufMetadata& metadata);

}  // namespace pagoda::quantize
