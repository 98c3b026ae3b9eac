// One owner a folder, among processes as within one.

#include "base/folder_lock.h"

#include <gtest/gtest.h>
#include <lockstep/error.h>
#include <signal.h>
#include <sys/stat.h>

#include <cerrno>
#include <optional>

#include "base/system_call.h"
#include "base/temp_folder.h"

namespace folder_lock_test {

using namespace lockstep;
using namespace lockstep::base;
using lockstep::test::content;
using lockstep::test::exit_code_of;
using lockstep::test::TempFolder;

/// Locking `folder` must be refused with a message that names it, the process and the way out.
void expect_refused(const std::string& folder, pid_t holder) {
  try {
    const FolderLock lock(folder);
    FAIL() << "no ConfigError";
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    for (const std::string& part : {folder, "process " + std::to_string(holder) + ":",
                                    std::string("wait"), std::string("another run directory")})
      EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

TEST(FolderLock, WritesTheProcessAndRefusesASecondOwner) {
  const TempFolder folder;
  const FolderLock lock(folder.path());
  EXPECT_EQ(content(folder / "lock"), std::to_string(::getpid()) + "\n");
  expect_refused(folder.path(), ::getpid());
}

TEST(FolderLock, IsFreeAgainAfterItsOwner) {
  const TempFolder folder;
  std::optional<FolderLock> lock(folder.path());
  lock.reset();
  EXPECT_NO_THROW(FolderLock(folder.path()));
}

TEST(FolderLock, ALongerNumberOfAnEarlierOwnerIsForgotten) {
  const TempFolder folder;
  lockstep::test::put(folder / "lock", "99999999999999999999999999\n");
  const FolderLock lock(folder.path());
  EXPECT_EQ(content(folder / "lock"), std::to_string(::getpid()) + "\n");
}

TEST(FolderLock, AFileOfThatNameThatIsNoLockIsNotWrittenOver) {
  const TempFolder folder;
  lockstep::test::put(folder / "lock", "the combination is 12-34\n");
  EXPECT_THROW(FolderLock(folder.path()), ConfigError);
  EXPECT_EQ(content(folder / "lock"), "the combination is 12-34\n");
}

TEST(FolderLock, AnotherProcessHoldsItUntilItIsKilled) {
  const TempFolder folder;
  int ready[2] = {};
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const FolderLock lock(folder.path());
    if (::write(ready[1], "x", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  expect_refused(folder.path(), child);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_NO_THROW(FolderLock(folder.path()));
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(FolderLock, AMissingFolderIsAnIoErrorWithThePath) {
  const TempFolder folder;
  try {
    const FolderLock lock(folder / "none");
    FAIL() << "no IoError";
  } catch (const IoError& error) {
    EXPECT_EQ(error.path, folder / "none/lock");
    EXPECT_EQ(error.error_number, ENOENT);
  }
}

TEST(FolderLock, AReadOnlyFolderIsAnIoErrorWithThePath) {
  const TempFolder folder;
  ASSERT_EQ(::chmod(folder.path().c_str(), 0555), 0);
  const int code = exit_code_of([&] {
    constexpr uid_t kNobody = 65534;  // root may write anywhere
    if (::geteuid() == 0 && ::setuid(kNobody) != 0) ::_exit(1);
    try {
      const FolderLock lock(folder.path());
      ::_exit(2);
    } catch (const IoError& error) {
      ::_exit(error.path == folder / "lock" && error.error_number == EACCES ? 3 : 4);
    }
  });
  EXPECT_EQ(code, 3);
}

TEST(FolderLock, AFileSystemWithoutLocksIsAnIoError) {
  const TempFolder folder;
  const ScopedFaults faults([](const char* call, const std::string&) {
    return call == std::string("lock") ? ENOLCK : 0;
  });
  EXPECT_THROW(FolderLock(folder.path()), IoError);
}

}  // namespace folder_lock_test
