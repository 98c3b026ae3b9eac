#pragma once

#include <string>

#include "base/file.h"

namespace lockstep::base {

/// Keeps a folder for one owner: holds the file `folder`/lock, which names the process. The kernel
/// lets go of it when the process dies, however it dies; the file itself stays.
class FolderLock {
 public:
  /// Throws ConfigError, naming the process, when another holds the folder (a second lock in the
  /// same process too), or when the file is not a lock; IoError when it cannot be made.
  explicit FolderLock(const std::string& folder);

 private:
  File file_;
};

}  // namespace lockstep::base
