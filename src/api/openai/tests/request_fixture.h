// Parse options and helpers that the request tests share.
#pragma once

#include <fmt/format.h>

#include <string>

#include "api/openai/request.h"

namespace pagoda::openai {

inline ParseOptions test_options() {
  ParseOptions options;
  options.model_names = {"tiny", "alias"};
  options.vocab_size = 1000;
  options.max_n = 8;
  options.max_prompts = 4;
  options.template_variables = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  return options;
}

// A completions body with one more field.
inline std::string completion_body(const std::string& field) {
  return fmt::format(R"({{"prompt":"hi",{}}})", field);
}
// A chat body with one more field.
inline std::string chat_body(const std::string& field) {
  return fmt::format(R"({{"messages":[{{"role":"user","content":"hi"}}],{}}})", field);
}

// "ok", or "kind param" of the error.
template <class T>
std::string verdict(const Result<T>& result) {
  if (result) return "ok";
  if (result.error().message.empty()) return "an error without a message";
  switch (result.error().kind) {
    case ErrorKind::kInvalidArgument:
      return "400 " + result.error().param;
    case ErrorKind::kNotFound:
      return "404 " + result.error().param;
    case ErrorKind::kUnimplemented:
      return "501 " + result.error().param;
    default:
      return "other";
  }
}

}  // namespace pagoda::openai
