#include "cli/batch_progress.h"

#include <fmt/format.h>

#include <algorithm>

namespace pagoda::cli {
namespace {

std::string bar(double fraction, int width) {
  const int filled = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * width);
  std::string text(static_cast<size_t>(filled), '=');
  if (filled < width) text += '>';
  text.resize(static_cast<size_t>(width), ' ');
  return "[" + text + "] ";
}

}  // namespace

std::string format_duration(double seconds) {
  const auto all = static_cast<int64_t>(std::max(0.0, seconds) + 0.5);
  const int64_t hours = all / 3600, minutes = all / 60 % 60;
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, all % 60);
  return fmt::format("{}:{:02}", minutes, all % 60);
}

std::string progress_text(const BatchSnapshot& snapshot, int bar_width) {
  std::string text;
  if (snapshot.total && bar_width > 0) {
    const double total = static_cast<double>(std::max<int64_t>(1, *snapshot.total));
    text += bar(static_cast<double>(snapshot.done) / total, bar_width);
  }
  text += snapshot.total ? fmt::format("{}/{}", snapshot.done, *snapshot.total)
                         : fmt::format("{} done", snapshot.done);
  if (snapshot.failed > 0) text += fmt::format(", {} failed", snapshot.failed);
  if (snapshot.seconds > 0) {
    text += fmt::format(", {:.1f} tokens/s", static_cast<double>(snapshot.tokens) / snapshot.seconds);
  }
  const int64_t done_now = snapshot.done - snapshot.done_before;
  if (snapshot.total && done_now > 0 && *snapshot.total > snapshot.done) {
    const auto left = static_cast<double>(*snapshot.total - snapshot.done);
    text +=
        fmt::format(", {} left", format_duration(snapshot.seconds / static_cast<double>(done_now) * left));
  }
  return text;
}

}  // namespace pagoda::cli
