#pragma once

#include <string>

namespace lockstep::base {

/// A folder that appears under its name whole or not at all, in place of one that is there. It is
/// filled as `final_path`.new, which the destructor removes. What has that name already, perhaps
/// because a process was killed, stays: then it is filled as `final_path`.new2, and so on.
class NewFolder {
 public:
  /// Whether `ending` is one of ".new", ".new2", ...
  static bool is_ending(const std::string& ending);

  /// The folder that `final_path` is to be in must exist.
  explicit NewFolder(const std::string& final_path);
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  /// Where to write meanwhile.
  const std::string& path() const { return path_; }

  /// Syncs all that is in the folder, at any depth, and gives it its name. If a folder has that
  /// name the two are exchanged in one go, and the older one is removed: at every moment one is
  /// there.
  void commit();

 private:
  std::string final_path_;
  std::string path_;
};

}  // namespace lockstep::base
