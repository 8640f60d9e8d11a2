// PAGODA_CHECK: an invariant of our own code. Never for what a request, file, network or configuration
// contains.
#pragma once

#include <fmt/format.h>

#include <string>

namespace pagoda::internal {
[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& detail);
}  // namespace pagoda::internal

// Prints file, line, condition and the formatted detail, then aborts. Active in every build type.
#define PAGODA_CHECK(condition, ...)                                                                   \
  do {                                                                                                 \
    if (!(condition)) [[unlikely]]                                                                     \
      ::pagoda::internal::check_failed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
  } while (false)
