// One process-wide logger over spdlog. Prompts, generated text and keys are never logged.
#pragma once

#include <spdlog/spdlog.h>

#include <string>

namespace pagoda::log {

using spdlog::debug;
using spdlog::error;
using spdlog::info;
using spdlog::warn;

// Sets up the stderr logger. `level` is trace, debug, info, warning, error or off; unknown names mean info.
void init(const std::string& level);

}  // namespace pagoda::log
