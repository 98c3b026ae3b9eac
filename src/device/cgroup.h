#pragma once

// How many cores the control groups around this process allow it.

#include <filesystem>

namespace lockstep::device {

/// Where Linux shows control groups.
struct CgroupFiles {
  std::filesystem::path own_group = "/proc/self/cgroup";
  std::filesystem::path root = "/sys/fs/cgroup";
};

/// The tightest CPU quota of this process' control group and the groups around it, versions 2 and
/// 1, in cores, rounded up; `most` without a quota, or with a larger one.
int cores_by_cgroup(int most, const CgroupFiles& files);

}  // namespace lockstep::device
