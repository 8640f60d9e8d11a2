// Calls written as Python: f(a=1, b="x").
#pragma once

#include <string>
#include <string_view>

#include "api/openai/json_text.h"

namespace pagoda::openai {

struct PythonCall {
  std::string name;
  Json arguments = Json::object();
  size_t size = 0;  // bytes of text that it takes
};

enum class PythonResult { kCall, kIncomplete, kNoCall };

// The call that `text` begins with: keyword arguments with literal values. kIncomplete: more text may make it
// one.
PythonResult read_python_call(std::string_view text, PythonCall* call);

}  // namespace pagoda::openai
