// What a token of a GGUF vocabulary is.
#pragma once

#include <cstdint>

namespace pagoda::model {

// tokenizer.ggml.token_type, as llama.cpp numbers it.
enum GgufTokenType : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

}  // namespace pagoda::model
