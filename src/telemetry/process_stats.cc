#include "telemetry/process_stats.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace pagoda::telemetry {
namespace {

double seconds(const timeval& t) {
  return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
}

std::optional<double> count_open_fds(const std::string& proc) {
  std::error_code error;
  double count = 0;
  for (std::filesystem::directory_iterator it(proc + "/self/fd", error), end; !error && it != end;
       it.increment(error)) {
    count += 1;
  }
  if (error || count == 0) return std::nullopt;
  return count - 1;  // the listing itself holds one
}

void read_memory(const std::string& proc, ProcessStats& stats) {
  std::ifstream file(proc + "/self/statm");
  double total_pages = 0, resident_pages = 0;
  if (!(file >> total_pages >> resident_pages)) return;
  const auto page_bytes = static_cast<double>(sysconf(_SC_PAGESIZE));
  stats.virtual_bytes = total_pages * page_bytes;
  stats.resident_bytes = resident_pages * page_bytes;
}

// proc(5): field 22 of stat is the start in clock ticks after boot; the command in field 2 may hold blanks
// and parentheses, so that counting begins after the last ')'.
std::optional<double> start_time(const std::string& proc) {
  std::ifstream stat_file(proc + "/self/stat");
  std::string stat;
  std::getline(stat_file, stat);
  const size_t command_end = stat.rfind(')');
  if (command_end == std::string::npos) return std::nullopt;
  std::istringstream fields(stat.substr(command_end + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  double ticks = 0;
  if (!(fields >> ticks)) return std::nullopt;
  std::ifstream system_file(proc + "/stat");
  for (std::string line; std::getline(system_file, line);) {
    std::istringstream words(line);
    std::string key;
    double boot = 0;
    if (words >> key >> boot && key == "btime")
      return boot + ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  return std::nullopt;
}

}  // namespace

ProcessStats read_process_stats(const std::string& proc) {
  ProcessStats stats;
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0)
    stats.cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) stats.max_fds = static_cast<double>(files.rlim_cur);
  stats.open_fds = count_open_fds(proc);
  read_memory(proc, stats);
  stats.start_time_seconds = start_time(proc);
  return stats;
}

}  // namespace pagoda::telemetry
