#include "base/resource_limits.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <vector>

namespace pagoda {
namespace {

std::optional<std::string> first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

std::optional<double> number(const std::string& text) {
  std::istringstream stream(text);
  double value = 0;
  if (!(stream >> value)) return std::nullopt;
  return value;
}

// The folders of this process's cgroup and all its parents, innermost first: any of them may set a limit.
std::vector<std::string> cgroup_dirs(const std::string& cgroup_root, const std::string& proc_root,
                                     const std::string& controller) {
  std::vector<std::string> dirs;
  std::ifstream file(proc_root + "/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    const bool v2 = names.empty();
    if (!v2 && ("," + names + ",").find("," + controller + ",") == std::string::npos) continue;
    const std::string root = v2 ? cgroup_root : cgroup_root + "/" + controller;
    for (std::string path = line.substr(second + 1); !path.empty() && path != "/";) {
      dirs.push_back(root + path);
      path.erase(path.rfind('/'));
    }
    dirs.push_back(root);
  }
  return dirs;
}

double cpu_quota(const std::string& cgroup_root, const std::string& proc_root) {
  double quota = std::numeric_limits<double>::infinity();
  for (const auto& dir : cgroup_dirs(cgroup_root, proc_root, "cpu")) {
    if (const auto line = first_line(dir + "/cpu.max")) {  // v2: "max 100000" or "200000 100000"
      std::istringstream stream(*line);
      std::string limit;
      double period = 0;
      if (stream >> limit >> period && limit != "max" && period > 0) {
        if (const auto value = number(limit)) quota = std::min(quota, *value / period);
      }
    }
    const auto limit = first_line(dir + "/cpu.cfs_quota_us"), period = first_line(dir + "/cpu.cfs_period_us");
    if (limit && period) {
      const auto l = number(*limit), p = number(*period);
      if (l && p && *l > 0 && *p > 0) quota = std::min(quota, *l / *p);
    }
  }
  return quota;
}

uint64_t memory_limit(const std::string& cgroup_root, const std::string& proc_root) {
  double limit = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  for (const auto& dir : cgroup_dirs(cgroup_root, proc_root, "memory")) {
    for (const char* name : {"/memory.max", "/memory.limit_in_bytes"}) {
      const auto line = first_line(dir + name);
      if (!line) continue;
      if (const auto value = number(*line); value && *value > 0) limit = std::min(limit, *value);
    }
  }
  return static_cast<uint64_t>(limit);
}

}  // namespace

ResourceLimits read_resource_limits(const std::string& cgroup_root, const std::string& proc_root) {
  ResourceLimits limits;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) limits.cpus = std::max(1, CPU_COUNT(&set));
  const double quota = cpu_quota(cgroup_root, proc_root);
  if (quota < limits.cpus) limits.cpus = std::max(1, static_cast<int>(std::ceil(quota)));
  limits.memory_bytes = memory_limit(cgroup_root, proc_root);
  return limits;
}

uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t total = 0, resident = 0;
  if (!(file >> total >> resident)) return 0;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace pagoda
