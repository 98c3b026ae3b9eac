#pragma once

// What is in a folder of images by class, without torch.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lockstep::vision {

struct ClassFolder {
  std::string name;
  std::vector<std::string> files;  ///< paths, sorted
};

/// The classes of a folder, sorted. Throws ConfigError when there are none or one is empty, IoError
/// when a folder cannot be read. `ignored` gets what is there besides, by what it is.
std::vector<ClassFolder> list_classes(const std::string& folder,
                                      std::map<std::string, std::int64_t>* ignored = nullptr);

}  // namespace lockstep::vision
