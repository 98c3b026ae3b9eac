#pragma once

// A file in memory with a path, for readers that open files.

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

class TemporaryFile {
 public:
  TemporaryFile(const std::uint8_t* data, std::size_t size) : handle_(memfd_create("fuzz", 0)) {
    if (handle_ < 0 || write(handle_, data, size) != static_cast<ssize_t>(size)) std::abort();
  }
  ~TemporaryFile() { close(handle_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(handle_); }

 private:
  int handle_;
};
