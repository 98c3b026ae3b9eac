#include "base/new_folder.h"

#include <lockstep/error.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/file.h"
#include "base/system_call.h"

namespace lockstep::base {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".new";

/// "a/b/" is "a/b": what is written aside must be beside it, not in it.
std::string without_end_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

void sync_all_in(const std::string& folder) {
  try {
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      const fs::file_status status = entry.symlink_status();
      if (fs::is_regular_file(status)) File(entry.path(), O_RDONLY).sync();
      if (fs::is_directory(status)) sync_folder(entry.path());
    }
  } catch (const fs::filesystem_error& error) {
    throw IoError(folder, "list", error.code().value());
  }
  sync_folder(folder);
}

}  // namespace

NewFolder::NewFolder(const std::string& final_path)
    : final_path_(without_end_slash(final_path)), path_(final_path_ + std::string(kEnding)) {
  attempt(path_, "make", [&] {
    for (int n = 2;; ++n) {
      if (::mkdir(path_.c_str(), 0755) == 0) return 0;
      if (errno != EEXIST) return -1;
      path_ = final_path_ + std::string(kEnding) + std::to_string(n);
    }
  });
}

bool NewFolder::is_ending(const std::string& ending) {
  return ending.starts_with(kEnding) &&
         ending.find_first_not_of("0123456789", kEnding.size()) == std::string::npos;
}

NewFolder::~NewFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void NewFolder::commit() {
  sync_all_in(path_);
  attempt(final_path_, "rename to", [&] {
    if (std::rename(path_.c_str(), final_path_.c_str()) == 0) return 0;
    if (errno != ENOTEMPTY && errno != EEXIST) return -1;
    return ::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, final_path_.c_str(), RENAME_EXCHANGE);
  });
  sync_folder(folder_of(final_path_));
}

}  // namespace lockstep::base
