#include "base/resource_limits.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace pagoda {
namespace {

namespace fs = std::filesystem;

class ResourceLimitsTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "/resource_limits_test";
    fs::remove_all(root_);
  }
  void write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text << "\n";
  }
  ResourceLimits read() { return read_resource_limits(root_ + "/cg", root_ + "/proc"); }
  std::string root_;
};

TEST_F(ResourceLimitsTest, CgroupV2QuotaAndMemoryOfAnyParentBind) {
  write("/proc/self/cgroup", "0::/a/b");
  write("/cg/a/b/cpu.max", "max 100000");
  write("/cg/a/cpu.max", "50000 100000");
  write("/cg/a/b/memory.max", "1048576");
  write("/cg/a/memory.max", "max");
  EXPECT_EQ(read().cpus, 1);
  EXPECT_EQ(read().memory_bytes, 1048576u);
}

TEST_F(ResourceLimitsTest, CgroupV1) {
  write("/proc/self/cgroup", "4:cpu,cpuacct:/x\n3:memory:/x");
  write("/cg/cpu/x/cpu.cfs_quota_us", "100000");
  write("/cg/cpu/x/cpu.cfs_period_us", "100000");
  write("/cg/memory/x/memory.limit_in_bytes", "2097152");
  EXPECT_EQ(read().cpus, 1);
  EXPECT_EQ(read().memory_bytes, 2097152u);
}

TEST_F(ResourceLimitsTest, NoFilesMeansTheWholeMachine) {
  EXPECT_GE(read().cpus, 1);
  EXPECT_GT(read().memory_bytes, 1u << 20);
}

}  // namespace
}  // namespace pagoda
