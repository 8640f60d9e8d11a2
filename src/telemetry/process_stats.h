// What the operating system knows about this process, under the names that Prometheus clients share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace pagoda::telemetry {

// A value that the system does not tell is absent.
struct ProcessStats {
  std::optional<double> cpu_seconds;  // user and system time of all threads
  std::optional<double> resident_bytes;
  std::optional<double> virtual_bytes;
  std::optional<double> open_fds;
  std::optional<double> max_fds;
  std::optional<double> start_time_seconds;  // since the Unix epoch
};

// Reads `proc` (a folder laid out as /proc). Thread-safe.
ProcessStats read_process_stats(const std::string& proc = "/proc");

}  // namespace pagoda::telemetry
