// A folder appears whole or not at all, whatever fails and whenever the process dies.

#include "base/new_folder.h"

#include <gtest/gtest.h>
#include <lockstep/error.h>

#include <cerrno>
#include <map>
#include <set>

#include "base/file.h"
#include "base/system_call.h"
#include "base/temp_folder.h"

namespace new_folder_test {

using namespace lockstep;
using namespace lockstep::base;
using lockstep::test::content;
using lockstep::test::exit_code_of;
using lockstep::test::put;
using lockstep::test::TempFolder;
namespace fs = std::filesystem;

constexpr int kKilled = 7;

/// What a checkpoint does: two files, one of them deeper, through File.
void make(const std::string& final_path) {
  NewFolder folder(final_path);
  File weights(folder.path() + "/weights");
  weights.write(std::string(std::size_t{3} << 20U, 'w'));
  weights.close();
  fs::create_directory(folder.path() + "/deep");
  File manifest(folder.path() + "/deep/manifest");
  manifest.write("{}");
  manifest.close();
  folder.commit();
}

bool is_whole(const std::string& path) {
  return content(path + "/weights").size() == std::size_t{3} << 20U &&
         content(path + "/deep/manifest") == "{}";
}

TEST(NewFolder, AppearsWhenItIsCommitted) {
  const TempFolder temp;
  const std::string path = temp / "step-1";
  {
    NewFolder folder(path);
    EXPECT_TRUE(fs::is_directory(folder.path()));
    put(folder.path() + "/file", "text");
    EXPECT_FALSE(fs::exists(path));
    folder.commit();
    EXPECT_EQ(content(path + "/file"), "text");
  }
  EXPECT_EQ(content(path + "/file"), "text");
  EXPECT_FALSE(fs::exists(path + ".new"));
}

TEST(NewFolder, WithoutACommitNothingRemains) {
  const TempFolder temp;
  {
    const NewFolder folder(temp / "step-1");
    put(folder.path() + "/file", "text");
  }
  EXPECT_TRUE(fs::is_empty(temp.path()));
}

TEST(NewFolder, LeavesAloneWhatHasItsOtherNameAlready) {
  const TempFolder temp;
  fs::create_directories(temp / "step-1.new/deep");
  put(temp / "step-1.new/mine", "mine");
  put(temp / "step-1.new2", "a file of mine");
  make(temp / "step-1");
  EXPECT_TRUE(is_whole(temp / "step-1"));
  EXPECT_FALSE(fs::exists(temp / "step-1/mine"));
  EXPECT_EQ(content(temp / "step-1.new/mine"), "mine");
  EXPECT_EQ(content(temp / "step-1.new2"), "a file of mine");
  EXPECT_FALSE(fs::exists(temp / "step-1.new3"));
}

TEST(NewFolder, KnowsTheEndingsOfItsNames) {
  for (const char* own : {".new", ".new2", ".new17"}) EXPECT_TRUE(NewFolder::is_ending(own)) << own;
  for (const char* other : {"", ".old", ".newer", ".new2b", "new"})
    EXPECT_FALSE(NewFolder::is_ending(other)) << other;
}

TEST(NewFolder, ASlashAtTheEndChangesNothing) {
  const TempFolder temp;
  make(temp / "step-1//");
  EXPECT_TRUE(is_whole(temp / "step-1"));
}

TEST(NewFolder, TakesThePlaceOfOneOfThatNameAndAtEveryMomentOneIsThere) {
  for (int failing = 0;; ++failing) {
    const TempFolder temp;
    fs::create_directory(temp / "step-1");
    put(temp / "step-1/old", "old");
    int calls = 0;
    bool failed = false;
    {
      const ScopedFaults faults([&](const char*, const std::string&) {
        EXPECT_TRUE(fs::exists(temp / "step-1"));
        return calls++ == failing ? EIO : 0;
      });
      try {
        make(temp / "step-1");
      } catch (const IoError&) {
        failed = true;
      }
    }
    EXPECT_TRUE(content(temp / "step-1/old") == "old" || is_whole(temp / "step-1")) << failing;
    EXPECT_FALSE(fs::exists(temp / "step-1.new")) << failing;
    if (failed) continue;
    EXPECT_TRUE(is_whole(temp / "step-1"));
    EXPECT_FALSE(fs::exists(temp / "step-1/old"));
    return;
  }
}

TEST(NewFolder, AMissingParentIsAnIoErrorWithThePath) {
  const TempFolder temp;
  try {
    const NewFolder folder(temp / "none/step-1");
    FAIL() << "no IoError";
  } catch (const IoError& error) {
    EXPECT_EQ(error.path, temp / "none/step-1.new");
    EXPECT_EQ(error.error_number, ENOENT);
  }
}

TEST(NewFolder, SyncsAllThatIsInItBeforeTheRenameAndTheParentAfter) {
  const TempFolder temp;
  const std::string path = temp / "step-1", aside = path + ".new";
  std::set<std::string> before, after;
  bool renamed = false;
  {
    const ScopedFaults faults([&](const char* call, const std::string& on) {
      if (call == std::string("rename to")) renamed = true;
      if (call == std::string("sync")) (renamed ? after : before).insert(on);
      return 0;
    });
    make(path);
  }
  EXPECT_EQ(before, (std::set<std::string>{aside, aside + "/weights", aside + "/deep",
                                           aside + "/deep/manifest"}));
  EXPECT_EQ(after, std::set<std::string>{temp.path()});
}

TEST(NewFolder, WhicheverCallFailsItIsWholeOrAbsent) {
  int saw_absent = 0, saw_whole = 0;
  bool failed = true;
  for (int n = 0; failed; ++n) {
    const TempFolder temp;
    int calls = 0;
    const ScopedFaults faults(
        [&](const char*, const std::string&) { return calls++ >= n ? ENOSPC : 0; });
    try {
      make(temp / "step-1");
      failed = false;
    } catch (const IoError& error) {
      EXPECT_EQ(error.error_number, ENOSPC);
    }
    const bool there = fs::exists(temp / "step-1");
    EXPECT_TRUE(!there || is_whole(temp / "step-1")) << "call " << n;
    EXPECT_FALSE(fs::exists(temp / "step-1.new")) << "call " << n;
    (there ? saw_whole : saw_absent) += 1;
  }
  EXPECT_EQ(saw_absent, 18);  // make; 5 and 3 calls for the files; 8 for the syncs; rename
  EXPECT_EQ(saw_whole, 3);    // open and sync of the parent, none
}

TEST(NewFolder, AProcessThatDiesAtAnyCallLeavesItWholeOrAbsent) {
  const TempFolder temp;
  std::map<bool, int> seen;
  int code = kKilled;
  for (int n = 0; code == kKilled; ++n) {
    fs::remove_all(temp / "step-1");
    code = exit_code_of([&] {
      int calls = 0;
      const ScopedFaults faults([&](const char*, const std::string&) {
        if (calls++ == n) ::_exit(kKilled);
        return 0;
      });
      make(temp / "step-1");
    });
    const bool there = fs::exists(temp / "step-1");
    EXPECT_TRUE(!there || is_whole(temp / "step-1")) << "call " << n;
    seen[there] += 1;
  }
  EXPECT_EQ(code, 0);
  EXPECT_EQ(seen, (std::map<bool, int>{{false, 18}, {true, 3}}));
}

}  // namespace new_folder_test
