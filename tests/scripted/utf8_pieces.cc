#include "scripted/utf8_pieces.h"

#include <utility>

namespace pagoda::scripted {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

struct Lead {
  int continuation_bytes = 0;        // 0: not a lead byte
  unsigned low = 0x80, high = 0xBF;  // of the first continuation byte
};

Lead lead_of(unsigned char byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {1, 0x80, 0xBF};
  if (byte == 0xE0) return {2, 0xA0, 0xBF};
  if (byte == 0xED) return {2, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {2, 0x80, 0xBF};
  if (byte == 0xF0) return {3, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {3, 0x80, 0xBF};
  if (byte == 0xF4) return {3, 0x80, 0x8F};
  return {};
}

// Whether `byte` may follow `held`, an incomplete character.
bool fits(const std::string& held, unsigned char byte) {
  const Lead lead = lead_of(static_cast<unsigned char>(held.front()));
  if (held.size() == 1) return byte >= lead.low && byte <= lead.high;
  return byte >= 0x80 && byte <= 0xBF;
}

bool complete(const std::string& held) {
  return held.size() ==
         static_cast<size_t>(lead_of(static_cast<unsigned char>(held.front())).continuation_bytes) + 1;
}

}  // namespace

std::string Utf8Pieces::push(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (!held_.empty()) {
      if (fits(held_, byte)) {
        held_.push_back(c);
        if (complete(held_)) out += std::exchange(held_, {});
        continue;
      }
      held_.clear();
      out += kReplacement;
    }
    if (byte < 0x80) {
      out.push_back(c);
    } else if (lead_of(byte).continuation_bytes > 0) {
      held_.push_back(c);
    } else {
      out += kReplacement;
    }
  }
  return out;
}

std::string Utf8Pieces::finish() {
  if (held_.empty()) return {};
  held_.clear();
  return std::string(kReplacement);
}

}  // namespace pagoda::scripted
