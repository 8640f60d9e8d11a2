// Errors about model files, all of one form: "<file>: <what in it, at which offset>", on one line.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

#include "base/result.h"

namespace pagoda::model {

// Text that came from a file, for a message: in quotes, bytes that are not printable ASCII as \xNN, cut after
// 80 bytes.
std::string shown(std::string_view text);

// "4, 8, 16"
template <class Numbers>
std::string number_list(const Numbers& numbers) {
  std::string text;
  for (const auto number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return text;
}

// The message is put together out of line, which keeps every caller small.
Error file_error(ErrorKind kind, std::string_view path, fmt::string_view format, fmt::format_args args);

template <class... Args>
Error corrupt_file(std::string_view path, fmt::format_string<Args...> format, Args&&... args) {
  return file_error(ErrorKind::kCorruptFile, path, format, fmt::make_format_args(args...));
}

template <class... Args>
Error unsupported_model(std::string_view path, fmt::format_string<Args...> format, Args&&... args) {
  return file_error(ErrorKind::kUnsupportedModel, path, format, fmt::make_format_args(args...));
}

}  // namespace pagoda::model
