// The files that sentence-transformers puts beside a model: how its rows become a vector.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "model/embedder.h"

namespace pagoda::model {

// What the files say; absent where they don't.
struct SentenceFiles {
  std::optional<Pooling> pooling;     // of the module Pooling
  std::optional<bool> normalize;      // modules.json is there, and has a module Normalize or not
  std::optional<int64_t> max_tokens;  // max_seq_length of sentence_bert_config.json
};

// kCorruptFile, or kUnsupportedModel for other modules and ways of pooling. `folder` may be any file's path:
// then there is nothing to say.
Result<SentenceFiles> read_sentence_files(const std::string& folder);

}  // namespace pagoda::model
