#include "vision/class_folder.h"

#include <lockstep/error.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

namespace lockstep::vision {
namespace {

namespace fs = std::filesystem;

bool is_image(const fs::path& file) {
  std::string suffix = file.extension().string();
  for (char& letter : suffix)
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return suffix == ".jpg" || suffix == ".jpeg" || suffix == ".png";
}

/// What `wanted` accepts of a folder, but for names that begin with a dot; sorted. The others go to
/// `left`.
template <class Wanted, class Left>
std::vector<fs::path> entries(const fs::path& folder, const Wanted& wanted, const Left& left) {
  std::vector<fs::path> found;
  try {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      if (entry.path().filename().string().front() == '.') continue;
      if (wanted(entry))
        found.push_back(entry.path());
      else
        left(entry);
    }
  } catch (const fs::filesystem_error& error) {
    throw IoError(folder.string(), "list the folder", error.code().value());
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

std::vector<ClassFolder> list_classes(const std::string& folder,
                                      std::map<std::string, std::int64_t>* ignored) {
  std::vector<ClassFolder> classes;
  const auto ignore = [&](const std::string& what) {
    if (ignored) ++(*ignored)[what];
  };
  const auto beside = [&](const fs::directory_entry&) { ignore("files beside the classes"); };
  const auto inside = [&](const fs::directory_entry& entry) {
    const std::string suffix = entry.path().extension().string();
    ignore(entry.is_directory() ? "folders inside of classes"
           : suffix.empty()     ? "files without an ending"
                                : suffix + " files");
  };
  const auto is_folder = [](const fs::directory_entry& entry) { return entry.is_directory(); };
  const auto is_image_file = [](const fs::directory_entry& entry) {
    return is_image(entry.path()) && !entry.is_directory();
  };
  for (const fs::path& path : entries(folder, is_folder, beside)) {
    ClassFolder own{path.filename().string(), {}};
    for (const fs::path& file : entries(path, is_image_file, inside))
      own.files.push_back(file.string());
    if (own.files.empty())
      throw ConfigError(path.string() +
                        ": no images (*.jpg, *.jpeg, *.png) of this class; every folder beside it "
                        "is a class too: remove it or put images in");
    classes.push_back(std::move(own));
  }
  if (classes.empty())
    throw ConfigError(folder + ": no classes; expected a folder for each class with its images");
  return classes;
}

}  // namespace lockstep::vision
