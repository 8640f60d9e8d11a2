// What this process may use: the cgroup's CPU quota, the CPU set and the memory limit.
#pragma once

#include <cstdint>
#include <string>

namespace pagoda {

struct ResourceLimits {
  int cpus = 1;               // usable CPUs: min(affinity mask, ceil of the cgroup quota), >= 1
  uint64_t memory_bytes = 0;  // min(cgroup memory limit, physical memory)
};

// Reads the limits of the calling process. `cgroup_root` and `proc_root` are parameters for tests; cgroup v2
// and v1 are understood, unreadable files mean "no limit".
ResourceLimits read_resource_limits(const std::string& cgroup_root = "/sys/fs/cgroup",
                                    const std::string& proc_root = "/proc");

// Bytes the process has resident now (VmRSS).
uint64_t resident_bytes();

}  // namespace pagoda
