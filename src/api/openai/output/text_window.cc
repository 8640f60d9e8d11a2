#include "api/openai/output/text_window.h"

namespace pagoda::openai {

MarkerPlace find_marker(std::string_view text, std::span<const std::string> markers) {
  MarkerPlace first{text.size()};
  for (const std::string& marker : markers) {
    if (marker.empty()) continue;
    size_t at = text.find(marker.front());
    while (at < first.at) {
      const Match match = match_literal(text.substr(at), marker);
      if (match != Match::kNo) {
        first = {at, match == Match::kYes ? &marker : nullptr};
        break;
      }
      at = text.find(marker.front(), at + 1);
    }
  }
  return first;
}

}  // namespace pagoda::openai
