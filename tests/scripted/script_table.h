// What the scripted model says: named lists of byte pieces, and the vocabulary made of them.
//
// A prompt chooses a script by ending in "script:NAME" (or, in a chat, by holding it anywhere). The model
// emits the script's pieces one token each, then what `then` says.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace pagoda::scripted {

// Fixed head of the vocabulary.
inline constexpr TokenId kPad{0}, kBos{1}, kEos{2}, kTurnStart{3}, kTurnEnd{4}, kAssistant{5};
inline constexpr TokenId kFault{6};  // its detokenizer call returns an error
inline constexpr TokenId kThrow{7};  // its detokenizer call throws
inline constexpr int32_t kFirstByte = 8;
inline constexpr int32_t kNumSpecial = 8;

struct Script {
  std::vector<std::vector<TokenId>> steps;  // candidates of each step: the first wins at temperature 0
  bool repeat = false;                      // starts again instead of an end token
  int delay_ms = 0;                         // of every step that this script takes part in
};

class ScriptTable {
 public:
  ScriptTable();

  // {"scripts": {NAME: {"pieces": [...], "repeat": bool, "delay_ms": int}}}. A piece is text, a list of
  // bytes, {"id": n}, or {"choose": [pieces]} for candidates of equal probability. kInvalidArgument says what
  // is wrong.
  static Result<ScriptTable> parse(std::string_view json);
  void add(const std::string& name, Script script);
  // The token of a piece; new ones of several bytes get an id.
  TokenId intern(const std::string& bytes);

  // The candidates of the next token behind `context`.
  std::vector<TokenId> next(std::span<const TokenId> context) const;
  int delay_ms(std::span<const TokenId> context) const;

  int64_t vocab_size() const { return static_cast<int64_t>(tokens_.size()); }
  const std::string& bytes(TokenId id) const { return tokens_[static_cast<size_t>(id.value)]; }
  static bool is_special(TokenId id) { return id.value < kNumSpecial; }
  // The longest "script:NAME" that `text` starts with; -1 when none.
  TokenId script_token_at(std::string_view text) const;

 private:
  struct Position {
    const Script* script;
    size_t step;
  };
  Position locate(std::span<const TokenId> context) const;

  std::vector<std::string> tokens_;  // bytes by id
  std::map<std::string, TokenId> ids_;
  std::map<TokenId, Script> scripts_;
  Script default_;  // of prompts without a script: the letter x without end
};

}  // namespace pagoda::scripted
