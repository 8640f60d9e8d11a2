// How far a batch is, for people: a bar on a terminal, a line now and then elsewhere.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace pagoda::cli {

struct BatchSnapshot {
  int64_t done = 0, failed = 0;
  std::optional<int64_t> total;  // absent for a pipe
  uint64_t tokens = 0;           // generated so far
  double seconds = 0;            // since the start
  int64_t done_before = 0;       // in the output from the start
};

// "[=====>    ] 50/100, 2 failed, 120.5 tokens/s, 1:05 left".
std::string progress_text(const BatchSnapshot& snapshot, int bar_width);

}  // namespace pagoda::cli
