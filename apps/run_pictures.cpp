#include "run_pictures.h"

#include <lockstep/error.h>

#include <algorithm>
#include <filesystem>

#include "run_folder.h"

namespace lockstep::apps {

std::string write_picture(const std::string& folder, const std::string& set,
                          const std::string& name, const Image& image) {
  namespace fs = std::filesystem;
  std::string file = set + "-" + name + ".png";
  std::ranges::replace(file, '/', '-');
  const std::string path = folder + "/" + file;
  const std::string aside = path + ".new";
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw IoError(folder, "make the folder", error.value());
  try {
    write_file(aside, png(image));
    fs::rename(aside, path, error);
    if (error) throw IoError(path, "write", error.value());
  } catch (const IoError&) {
    fs::remove(aside, error);
    throw;
  }
  return path;
}

void RunPictures::write(const std::string& set, const std::map<std::string, Image>& images) {
  for (const auto& [name, image] : images) try {
      if (note_.empty() && !image.note.empty()) note_ = set + "-" + name + ": " + image.note;
      write_picture(folder_, set, name, image);
    } catch (const IoError& problem) {
      if (failed_++ == 0) first_error_ = problem.what();
    }
}

std::string RunPictures::error() const {
  if (failed_ == 0) return "";
  return std::to_string(failed_) + " could not be written, the first: " + first_error_;
}

}  // namespace lockstep::apps
