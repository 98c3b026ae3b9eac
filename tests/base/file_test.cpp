// Whole files: what is written, and that a failure at any moment never leaves half a file.

#include "base/file.h"

#include <gtest/gtest.h>
#include <lockstep/error.h>

#include <cerrno>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "base/system_call.h"
#include "base/temp_folder.h"

namespace file_test {

using namespace lockstep;
using namespace lockstep::base;
using lockstep::test::content;
using lockstep::test::exit_code_of;
using lockstep::test::put;
using lockstep::test::TempFolder;
namespace fs = std::filesystem;

constexpr int kKilled = 7;

std::string large(char letter) { return std::string((std::size_t{5} << 19U) + 3, letter); }

/// Fails the call number `n` with `error`, and those after it: a full disk stays full.
FaultHook failing_from(int n, int error, int& calls) {
  return [n, error, &calls](const char*, const std::string&) { return calls++ >= n ? error : 0; };
}

template <class Action>
void expect_io_error(const std::string& path, int error_number, const Action& action) {
  try {
    action();
    FAIL() << "no IoError";
  } catch (const IoError& error) {
    EXPECT_EQ(error.path, path);
    EXPECT_EQ(error.error_number, error_number);
    EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
  }
}

TEST(File, WritesAllReadsBackAndAppends) {
  const TempFolder folder;
  const std::string path = folder / "file";
  File first(path);
  first.write(large('a'));
  first.close();
  File second(path, File::kAppend);
  second.write("end");
  second.sync();
  second.close();
  EXPECT_EQ(content(path), large('a') + "end");

  File file(path, O_RDONLY);
  std::vector<std::byte> bytes(large('a').size() + 100);
  EXPECT_EQ(file.read(bytes), large('a').size() + 3);
  EXPECT_EQ(bytes[0], std::byte{'a'});
  EXPECT_EQ(file.read(bytes), 0U);
}

TEST(File, AFullDiskIsAnIoErrorWithPathAndErrno) {
  File file("/dev/full", O_WRONLY);
  expect_io_error("/dev/full", ENOSPC, [&] { file.write("x"); });
}

TEST(File, AFolderThatIsNotThereIsAnIoError) {
  const TempFolder folder;
  expect_io_error(folder / "none/file", ENOENT, [&] { File file(folder / "none/file"); });
  expect_io_error(folder / "none", ENOENT, [&] { sync_folder(folder / "none"); });
}

TEST(File, ErrorsOfCloseAreReported) {
  const TempFolder folder;
  File file(folder / "file");
  const ScopedFaults faults(
      [](const char* call, const std::string&) { return call == std::string("close") ? EIO : 0; });
  expect_io_error(folder / "file", EIO, [&] { file.close(); });
}

TEST(Faults, ReachEveryThreadAndEndWithTheirGuard) {
  const TempFolder folder;
  {
    const ScopedFaults faults([](const char*, const std::string&) { return EIO; });
    EXPECT_THROW(ScopedFaults([](const char*, const std::string&) { return 0; }), std::logic_error);
    std::jthread([&] { EXPECT_THROW(File(folder / "file"), IoError); });
  }
  EXPECT_NO_THROW(File(folder / "file"));
}

TEST(Publish, SyncsTheFileBeforeTheRenameAndTheFolderAfterIt) {
  const TempFolder folder;
  const std::string path = folder / "file", aside = path + ".new";
  std::vector<std::pair<std::string, std::string>> calls;
  {
    const ScopedFaults faults([&](const char* call, const std::string& on) {
      calls.emplace_back(call, on);
      return 0;
    });
    publish(path, "text");
  }
  const decltype(calls) expected = {
      {"open", aside},     {"write", aside},        {"sync", aside},        {"close", aside},
      {"rename to", path}, {"open", folder.path()}, {"sync", folder.path()}};
  EXPECT_EQ(calls, expected);
  EXPECT_EQ(content(path), "text");
}

TEST(Publish, WhicheverCallFailsTheOldFileOrTheWholeNewIsThere) {
  const TempFolder folder;
  const std::string path = folder / "file";
  int saw_old = 0, saw_new = 0;
  for (const int error : {ENOSPC, EIO}) {
    bool failed = true;
    for (int n = 0; failed; ++n) {
      put(path, large('o'));
      int calls = 0;
      const ScopedFaults faults(failing_from(n, error, calls));
      try {
        publish(path, large('n'));
        failed = false;
      } catch (const IoError& fault) {
        EXPECT_EQ(fault.error_number, error);
      }
      const std::string found = content(path);
      EXPECT_TRUE(found == large('o') || found == large('n')) << "call " << n;
      EXPECT_FALSE(fs::exists(path + ".new")) << "call " << n;
      (found == large('o') ? saw_old : saw_new) += 1;
    }
  }
  EXPECT_EQ(saw_old, 14);  // open, three writes, sync, close, rename; of two errors
  EXPECT_EQ(saw_new, 6);   // open and sync of the folder, none
}

TEST(Publish, AProcessThatDiesAtAnyCallLeavesTheOldFileOrTheWholeNew) {
  const TempFolder folder;
  const std::string path = folder / "file";
  put(path, large('o'));
  int code = kKilled, runs = 0;
  for (; code == kKilled; ++runs) {
    code = exit_code_of([&] {
      int calls = 0;
      const ScopedFaults faults([&](const char*, const std::string&) {
        if (calls++ == runs) ::_exit(kKilled);
        return 0;
      });
      publish(path, large('n'));
    });
    const std::string found = content(path);
    EXPECT_TRUE(found == large('o') || found == large('n')) << "call " << runs;
  }
  EXPECT_EQ(code, 0);  // what the earlier ones left aside is not in the way
  EXPECT_EQ(runs, 10);
  EXPECT_EQ(content(path), large('n'));
  int left = 0;
  for (const auto& entry : fs::directory_iterator(folder.path())) left += entry.path() != path;
  EXPECT_EQ(left, 6);  // of those that died from the first write to the rename
}

TEST(Publish, AFileOfTheUsersThatHasTheNameToBeWrittenAsideStays) {
  const TempFolder folder;
  const std::string path = folder / "file";
  put(path + ".new", "mine");
  fs::create_symlink("nowhere", path + ".new2");
  publish(path, "text");
  EXPECT_THROW(publish(path, [](File&) { throw std::runtime_error("half way"); }),
               std::runtime_error);
  EXPECT_EQ(content(path), "text");
  EXPECT_EQ(content(path + ".new"), "mine");
  EXPECT_TRUE(fs::is_symlink(path + ".new2"));
  EXPECT_FALSE(fs::exists(path + ".new3"));
  EXPECT_FALSE(fs::exists(folder / "nowhere"));
}

TEST(Publish, AWriterThatThrowsLeavesTheOldFile) {
  const TempFolder folder;
  const std::string path = folder / "file";
  publish(path, [](File& file) { file.write("old"); });
  const auto half = [](File& file) {
    file.write("ne");
    throw std::runtime_error("half way");
  };
  EXPECT_THROW(publish(path, half), std::runtime_error);
  EXPECT_EQ(content(path), "old");
  EXPECT_FALSE(fs::exists(path + ".new"));
}

TEST(Publish, ABareNameIsInTheWorkingFolder) {
  EXPECT_EQ(folder_of("file"), ".");
  EXPECT_EQ(folder_of("a/file"), "a");
  EXPECT_EQ(folder_of("/file"), "/");
}

TEST(ReadFile, GivesTheWholeFileUpToItsLimit) {
  const TempFolder folder;
  const std::string path = folder / "file";
  put(path, large('a'));
  EXPECT_EQ(read_file(path, large('a').size()), large('a'));
  put(path, "");
  EXPECT_EQ(read_file(path, 0), "");
}

TEST(ReadFile, RefusesALargerFileNamingTheLimit) {
  const TempFolder folder;
  const std::string path = folder / "file";
  put(path, "12345");
  try {
    read_file(path, 4);
    FAIL() << "no CorruptFile";
  } catch (const CorruptFile& error) {
    EXPECT_EQ(error.path, path);
    EXPECT_EQ(error.offset, 4U);
    EXPECT_NE(std::string(error.what()).find("at most 4 bytes"), std::string::npos);
  }
  EXPECT_THROW(read_file("/dev/zero", 10), CorruptFile);  // without an end: it stops early
}

TEST(ReadFile, AMissingFileAndAFolderAreIoErrors) {
  const TempFolder folder;
  expect_io_error(folder / "none", ENOENT, [&] { read_file(folder / "none", 10); });
  expect_io_error(folder.path(), EISDIR, [&] { read_file(folder.path(), 10); });
}

TEST(MappedFile, ShowsTheBytesAndMayMove) {
  const TempFolder folder;
  const std::string path = folder / "file";
  put(path, "abc");
  MappedFile first(path);
  const MappedFile second = std::move(first);
  fs::remove(path);
  ASSERT_EQ(second.bytes().size(), 3U);
  EXPECT_EQ(second.bytes()[2], std::byte{'c'});
}

TEST(MappedFile, AnEmptyFileHasNoBytes) {
  const TempFolder folder;
  put(folder / "file", "");
  EXPECT_TRUE(MappedFile(folder / "file").bytes().empty());
}

TEST(MappedFile, AMissingFileAndAFolderAreIoErrors) {
  const TempFolder folder;
  expect_io_error(folder / "none", ENOENT, [&] { MappedFile file(folder / "none"); });
  expect_io_error(folder.path(), EISDIR, [&] { MappedFile file(folder.path()); });
}

}  // namespace file_test
