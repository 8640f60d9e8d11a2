#include "cli/status_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>

namespace pagoda::cli {
namespace {

constexpr int kBarWidth = 30;
constexpr std::chrono::milliseconds kBarInterval{250}, kLineInterval{10000};

}  // namespace

std::string progress_bar(double fraction, int width) {
  if (width <= 0) return {};
  const int filled = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * width);
  std::string text(static_cast<size_t>(filled), '=');
  if (filled < width) text += '>';
  text.resize(static_cast<size_t>(width), ' ');
  return "[" + text + "] ";
}

std::string format_duration(double seconds) {
  const auto all = static_cast<int64_t>(std::max(0.0, seconds) + 0.5);
  const int64_t hours = all / 3600, minutes = all / 60 % 60;
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, all % 60);
  return fmt::format("{}:{:02}", minutes, all % 60);
}

StatusLine::StatusLine() : is_terminal_(isatty(STDERR_FILENO) == 1) {}

std::chrono::milliseconds StatusLine::interval() const {
  return is_terminal_ ? kBarInterval : kLineInterval;
}

int StatusLine::bar_width() const {
  return is_terminal_ ? kBarWidth : 0;
}

void StatusLine::show(const std::string& text) const {
  if (!is_terminal_) return print(text);
  std::fprintf(stderr, "\r\033[K%s", text.c_str());
  std::fflush(stderr);
}

void StatusLine::print(const std::string& text) const {
  clear();
  std::fprintf(stderr, "%s\n", text.c_str());
}

void StatusLine::clear() const {
  if (is_terminal_) std::fprintf(stderr, "\r\033[K");
}

std::string without_control_codes(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  }
  return text;
}

}  // namespace pagoda::cli
