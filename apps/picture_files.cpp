#include "picture_files.h"

#include <glob.h>
#include <lockstep/error.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace lockstep::apps {
namespace {

namespace fs = std::filesystem;

bool is_picture(const fs::path& path) {
  std::string ending = path.extension().string();
  for (char& letter : ending)
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

std::vector<std::string> in_folder(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && is_picture(entry.path())) files.push_back(entry.path().string());
  std::ranges::sort(files);
  return files;
}

std::vector<std::string> by_pattern(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> files;
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0)
    files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  return files;
}

}  // namespace

std::vector<std::uint8_t> read_picture(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<std::uint8_t> bytes((std::istreambuf_iterator<char>(file)), {});
  if (!file) throw IoError(path, "read", errno);
  return bytes;
}

std::vector<std::string> picture_files(const std::vector<std::string>& named) {
  std::vector<std::string> files;
  for (const std::string& name : named) {
    std::vector<std::string> more = {name};
    if (fs::is_directory(name))
      more = in_folder(name);
    else if (!fs::exists(name))
      more = by_pattern(name);
    if (more.empty())
      throw ConfigError(fs::is_directory(name)
                            ? "there is no JPEG or PNG file in '" + name + "'."
                            : "there is no picture, folder or match for '" + name + "'.");
    files.insert(files.end(), more.begin(), more.end());
  }
  return files;
}

}  // namespace lockstep::apps
