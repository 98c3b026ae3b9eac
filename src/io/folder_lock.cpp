#include "io/folder_lock.h"

#include <lockstep/error.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "io/system_call.h"

namespace lockstep::io {
namespace {

/// The number that the holder wrote; empty between its locking and its writing.
std::string process_in(File& file) {
  std::array<char, 20> text = {};
  file.read(std::as_writable_bytes(std::span(text)));
  const auto end = std::find_if_not(text.begin(), text.end(),
                                    [](unsigned char c) { return std::isdigit(c) != 0; });
  return {text.begin(), end};
}

}  // namespace

FolderLock::FolderLock(const std::string& folder) : file_(folder + "/lock", O_RDWR | O_CREAT) {
  try {
    attempt(file_.path(), "lock", [&] { return ::flock(file_.handle(), LOCK_EX | LOCK_NB); });
  } catch (const IoError& error) {
    if (error.error_number != EWOULDBLOCK) throw;
    const std::string process = process_in(file_);
    throw ConfigError(folder + " is in use by " +
                      (process.empty() ? "another process" : "process " + process) +
                      ": wait until it ends, or choose another run directory");
  }
  attempt(file_.path(), "write", [&] { return ::ftruncate(file_.handle(), 0); });
  file_.write(std::to_string(::getpid()) + "\n");
}

}  // namespace lockstep::io
