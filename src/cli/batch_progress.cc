#include "cli/batch_progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/status_line.h"

namespace pagoda::cli {

std::string progress_text(const BatchSnapshot& snapshot, int bar_width) {
  std::string text;
  if (snapshot.total) {
    const double total = static_cast<double>(std::max<int64_t>(1, *snapshot.total));
    text += progress_bar(static_cast<double>(snapshot.done) / total, bar_width);
  }
  text += snapshot.total ? fmt::format("{}/{}", snapshot.done, *snapshot.total)
                         : fmt::format("{} done", snapshot.done);
  if (snapshot.failed > 0) text += fmt::format(", {} failed", snapshot.failed);
  if (snapshot.seconds > 0 && snapshot.tokens > 0) {
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
