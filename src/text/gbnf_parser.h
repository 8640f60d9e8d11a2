// The rules of a GBNF grammar.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pagoda::text::internal {

struct GbnfNode {
  enum class Kind : uint8_t {
    kLiteral,   // text: the characters
    kClass,     // text: a regular expression for one character
    kToken,     // text: a control token in angle brackets
    kRule,      // rule: its index
    kSequence,  // of items; none is the empty text
    kChoice,    // between items
    kRepeat,    // of the single item
  };
  Kind kind = Kind::kSequence;
  std::string text;
  size_t rule = 0;
  int min = 0, max = 0;  // max -1: no limit
  std::vector<GbnfNode> items;
};

struct GbnfRule {
  std::string name;
  GbnfNode body;
  int first_line = 0;  // where it is first mentioned
  bool defined = false;
};

struct GbnfGrammar {
  std::vector<GbnfRule> rules;  // all of them defined
  size_t root = 0;
};

Result<GbnfGrammar> parse_gbnf(std::string_view text);

}  // namespace pagoda::text::internal
