#include "model/loader/file_error.h"

#include <fmt/format.h>

namespace pagoda::model {

std::string shown(std::string_view text) {
  constexpr size_t kLongest = 80;
  std::string out = "'";
  for (const char c : text.substr(0, kLongest)) {
    if (c >= 0x20 && c < 0x7f) {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return out + (text.size() > kLongest ? "...'" : "'");
}

Error file_error(ErrorKind kind, std::string_view path, fmt::string_view format, fmt::format_args args) {
  return make_error(kind, fmt::format("{}: {}", path, fmt::vformat(format, args)));
}

}  // namespace pagoda::model
