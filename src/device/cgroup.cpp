#include "device/cgroup.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>

namespace lockstep::device {
namespace {

/// Cores that one "quota period" pair in microseconds allows, at least 1; `most` without a quota.
int cores_by_quota(const std::string& quota, const std::string& period, int most) {
  const double q = std::atof(quota.c_str()), p = std::atof(period.c_str());
  if (q <= 0 || p <= 0) return most;  // "max", "-1" or nothing
  return std::max(1, static_cast<int>(std::min<double>(most, std::ceil(q / p))));
}

}  // namespace

int cores_by_cgroup(int most, const CgroupFiles& files) {
  std::string line, quota, period, group;
  for (std::ifstream file(files.own_group); std::getline(file, line);)
    if (line.starts_with("0::/")) group = line.substr(4);
  for (std::filesystem::path path = group.empty() ? files.root : files.root / group;;
       path = path.parent_path()) {
    if (std::ifstream file(path / "cpu.max"); file >> quota >> period)
      most = cores_by_quota(quota, period, most);
    if (path == files.root || !path.has_relative_path()) break;
  }
  quota = period = "";
  std::ifstream(files.root / "cpu/cpu.cfs_quota_us") >> quota;
  std::ifstream(files.root / "cpu/cpu.cfs_period_us") >> period;
  return cores_by_quota(quota, period, most);
}

}  // namespace lockstep::device
