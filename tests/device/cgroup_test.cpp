#include "device/cgroup.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <string>

namespace cgroup_test {

namespace fs = std::filesystem;
using lockstep::device::cores_by_cgroup;

/// A folder that looks like Linux' files of control groups.
class Cgroup : public testing::Test {
 protected:
  Cgroup() {
    std::string name = (fs::temp_directory_path() / "lockstep-cgroup-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    write("own", "0::/outer/inner\n");
  }
  ~Cgroup() override { fs::remove_all(folder_); }

  void write(const std::string& file, const std::string& text) {
    fs::create_directories((folder_ / file).parent_path());
    std::ofstream(folder_ / file) << text;
  }
  int cores(int most) const {
    return cores_by_cgroup(most, {.own_group = folder_ / "own", .root = folder_ / "root"});
  }

 private:
  fs::path folder_;
};

TEST_F(Cgroup, WithoutAQuotaAllCoresCount) {
  EXPECT_EQ(cores(8), 8);
  write("root/outer/inner/cpu.max", "max 100000\n");
  EXPECT_EQ(cores(8), 8);
}

TEST_F(Cgroup, AQuotaIsRoundedUpAndNeverAddsCores) {
  write("root/outer/inner/cpu.max", "250000 100000\n");
  EXPECT_EQ(cores(8), 3);
  EXPECT_EQ(cores(2), 2);
  write("root/outer/inner/cpu.max", "1000 100000\n");
  EXPECT_EQ(cores(8), 1);
}

TEST_F(Cgroup, TheTightestOfTheGroupsAroundCounts) {
  write("root/outer/inner/cpu.max", "600000 100000\n");
  write("root/outer/cpu.max", "200000 100000\n");
  write("root/cpu.max", "400000 100000\n");
  EXPECT_EQ(cores(8), 2);
}

TEST_F(Cgroup, AtTheRootOfItsNamespaceTheRootsQuotaCounts) {
  write("own", "0::/\n");
  write("root/cpu.max", "400000 100000\n");
  EXPECT_EQ(cores(8), 4);
}

TEST_F(Cgroup, Version1IsReadAsWell) {
  write("own", "4:cpu,cpuacct:/\n");
  write("root/cpu/cpu.cfs_quota_us", "150000\n");
  write("root/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cores(8), 2);
  write("root/cpu/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(cores(8), 8);
}

}  // namespace cgroup_test
