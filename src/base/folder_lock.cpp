#include "base/folder_lock.h"

#include <lockstep/error.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>

#include "base/system_call.h"

namespace lockstep::base {
namespace {

/// What the file begins with: a holder's number; nothing between its locking and its writing.
std::string text_in(const File& file) {
  std::array<char, 64> text = {};
  const auto got = attempt(file.path(), "read",
                           [&] { return ::pread(file.handle(), text.data(), text.size(), 0); });
  return {text.data(), static_cast<std::size_t>(got)};
}

}  // namespace

FolderLock::FolderLock(const std::string& folder) : file_(folder + "/lock", O_RDWR | O_CREAT) {
  try {
    attempt(file_.path(), "lock", [&] { return ::flock(file_.handle(), LOCK_EX | LOCK_NB); });
  } catch (const IoError& error) {
    if (error.error_number != EWOULDBLOCK) throw;
    const std::string text = text_in(file_), process = text.substr(0, text.find('\n'));
    throw ConfigError(folder + " is in use by " +
                      (process.empty() ? "another process" : "process " + process) +
                      ": wait until it ends, or choose another run directory");
  }
  if (text_in(file_).find_first_not_of("0123456789\n") != std::string::npos)
    throw ConfigError("'" + file_.path() +
                      "' is a file of another program: move it, or choose another run directory");
  attempt(file_.path(), "write", [&] { return ::ftruncate(file_.handle(), 0); });
  file_.write(std::to_string(::getpid()) + "\n");
}

}  // namespace lockstep::base
