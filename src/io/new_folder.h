#pragma once

#include <string>

namespace lockstep::io {

/// A folder that appears under its name whole or not at all. It is filled as `final_path`.new,
/// which the destructor removes unless it was committed; one that a crash left behind is replaced.
class NewFolder {
 public:
  /// The folder that `final_path` is to be in must exist.
  explicit NewFolder(const std::string& final_path);
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  /// Where to write meanwhile.
  const std::string& path() const { return path_; }

  /// Syncs all that is in the folder, at any depth, and gives it its name. Throws IoError when
  /// there is a folder of that name with something in it: it is never replaced.
  void commit();

 private:
  std::string final_path_;
  std::string path_;
  bool committed_ = false;
};

}  // namespace lockstep::io
