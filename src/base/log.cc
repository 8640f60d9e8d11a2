#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

namespace pagoda::log {

void init(const std::string& level) {
  static const auto logger = spdlog::stderr_color_mt("pagoda");
  spdlog::set_default_logger(logger);
  spdlog::set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
  const auto parsed = spdlog::level::from_str(level);
  // from_str answers `off` for names it does not know.
  spdlog::set_level(parsed == spdlog::level::off && level != "off" ? spdlog::level::info : parsed);
}

}  // namespace pagoda::log
