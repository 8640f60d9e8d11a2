// A model as `pagoda eval` is given it: "MODEL", or
// "MODEL::quantization=int4,activation-precision=int16,name=x".
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace pagoda::cli {

struct EvalSpec {
  std::string model;              // path
  std::string name;               // in the table; empty: none was given
  std::vector<std::string> args;  // "--quantization=int4"
  std::string flags;              // the same as it was written, without the name: "quantization=int4"
};

// kInvalidArgument naming what is wrong with the text. The flags themselves are checked by
// parse_engine_args().
Result<EvalSpec> parse_eval_spec(const std::string& text);

// What a model is run with: the flags for all, then its own. A reference takes no flag from those for all
// that would change its results, and has --dtype float32.
std::vector<std::string> engine_args_of(const EvalSpec& spec, const std::vector<std::string>& for_all,
                                        bool is_reference);

}  // namespace pagoda::cli
