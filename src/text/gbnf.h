// Grammars in llama.cpp's GBNF, written anew as Lark.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace pagoda::text {

// Known: alternatives, sequences, groups, * + ? {m} {m,} {m,n}, literals and character classes with their
// escapes, `.`, comments, rule names with dashes, control tokens as <name> and <[id]>. The output is what
// `root` matches. Parts that do not recurse become terminals, which match as much as they can. Such a part is
// taken as a whole: where a shorter match would leave more to the rule after it, that text is not offered.
// kInvalidArgument with the line.
Result<std::string> gbnf_to_lark(std::string_view gbnf);

}  // namespace pagoda::text
