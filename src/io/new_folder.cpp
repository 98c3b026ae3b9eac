#include "io/new_folder.h"

#include <lockstep/error.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <system_error>

#include "io/file.h"
#include "io/system_call.h"

namespace lockstep::io {
namespace {

namespace fs = std::filesystem;

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
    : final_path_(without_end_slash(final_path)), path_(final_path_ + ".new") {
  std::error_code error;
  fs::remove_all(path_, error);
  if (error) throw IoError(path_, "remove", error.value());
  attempt(path_, "make", [&] { return ::mkdir(path_.c_str(), 0755); });
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

}  // namespace lockstep::io
