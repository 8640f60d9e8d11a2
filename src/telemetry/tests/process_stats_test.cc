#include "telemetry/process_stats.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>

namespace pagoda::telemetry {
namespace {

TEST(ProcessStatsTest, ReadsThisProcess) {
  const ProcessStats stats = read_process_stats();
  ASSERT_TRUE(stats.cpu_seconds && stats.resident_bytes && stats.virtual_bytes && stats.open_fds &&
              stats.max_fds);
  EXPECT_GE(*stats.cpu_seconds, 0.0);
  EXPECT_GT(*stats.resident_bytes, 1e5);
  EXPECT_GE(*stats.virtual_bytes, *stats.resident_bytes);
  EXPECT_GE(*stats.open_fds, 1);
  EXPECT_LE(*stats.open_fds, *stats.max_fds);
}

TEST(ProcessStatsTest, CountsADescriptorMore) {
  const double before = read_process_stats().open_fds.value();
  const std::ifstream held("/proc/self/stat");
  EXPECT_EQ(read_process_stats().open_fds.value(), before + 1);
}

// A folder like /proc, removed at the end.
class FakeProc {
 public:
  FakeProc() : path_(std::filesystem::temp_directory_path() / ("pagoda_proc_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path_ / "self" / "fd");
  }
  ~FakeProc() { std::filesystem::remove_all(path_); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(path_ / name) << text; }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

TEST(ProcessStatsTest, StartTimeSurvivesAStrangeCommandName) {
  const FakeProc proc;
  proc.write("self/stat", "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 5000 20 21\n");
  proc.write("stat", "cpu 1 2 3\nbtime 1700000000\nprocesses 5\n");
  const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  EXPECT_DOUBLE_EQ(read_process_stats(proc.path()).start_time_seconds.value(), 1700000000 + 5000 / ticks);
}

TEST(ProcessStatsTest, ParsesPages) {
  const FakeProc proc;
  proc.write("self/statm", "100 40 3 4 0 6 0\n");
  const auto page = static_cast<double>(sysconf(_SC_PAGESIZE));
  EXPECT_EQ(read_process_stats(proc.path()).virtual_bytes.value(), 100 * page);
  EXPECT_EQ(read_process_stats(proc.path()).resident_bytes.value(), 40 * page);
}

TEST(ProcessStatsTest, MissingOrBrokenFilesLeaveValuesOut) {
  const ProcessStats absent = read_process_stats("/nonexistent");
  EXPECT_FALSE(absent.resident_bytes || absent.open_fds || absent.start_time_seconds);
  const FakeProc proc;
  proc.write("self/stat", "7 (a) S 1\n");
  proc.write("self/statm", "x\n");
  const ProcessStats broken = read_process_stats(proc.path());
  EXPECT_FALSE(broken.resident_bytes || broken.start_time_seconds);
}

}  // namespace
}  // namespace pagoda::telemetry
