#pragma once

// A temporary folder with files.

#include <lockstep/error.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

namespace lockstep::tests {

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "lockstep-data-XXXXXX").string();
    if (!mkdtemp(name.data())) throw IoError(name, "make", errno);
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string path(const std::string& name = "") const {
    return name.empty() ? path_.string() : (path_ / name).string();
  }

  std::string write(const std::string& name, std::span<const std::uint8_t> bytes) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path(name), std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    return path(name);
  }

 private:
  std::filesystem::path path_;
};

}  // namespace lockstep::tests
