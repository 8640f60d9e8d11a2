// JSON text to values and back, with the limits of a server: whatever bytes a client sends, the answer is a
// value or an error that names the byte.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace pagoda::openai {

// Keeps the order of keys, which chat templates show to the model.
using Json = nlohmann::ordered_json;

// Deeper bodies are refused before anything recursive sees them; the deepest tool schemas in use have about
// 20 levels.
inline constexpr int kMaxJsonDepth = 128;
// A value costs 16 bytes and more in memory against 2 bytes in the text, so the number of values is bounded
// too; it leaves room for a prompt of four million token ids.
inline constexpr size_t kMaxJsonValues = size_t{4} << 20;

// Strict RFC 8259: no BOM, no NaN or Infinity words, nothing after the value. Also refused: duplicate keys,
// depth above kMaxJsonDepth, more than kMaxJsonValues values, numbers outside the range of a double.
// kInvalidArgument naming the byte offset.
Result<Json> parse_json(std::string_view text);

// Compact; bytes that are not UTF-8 come out as U+FFFD, so that no text of a model can make it throw.
std::string dump_json(const Json& value);

// Index of the first byte that is not part of valid UTF-8, or npos.
size_t find_invalid_utf8(std::string_view text);

}  // namespace pagoda::openai
