#include "io/file.h"

#include <lockstep/error.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "io/system_call.h"

namespace lockstep::io {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20U;

}  // namespace

File::File(std::string path, int flags)
    : path_(std::move(path)),
      handle_(
          attempt(path_, "open", [&] { return ::open(path_.c_str(), flags | O_CLOEXEC, 0644); })) {}

File::~File() {
  if (handle_ >= 0) ::close(handle_);
}

void File::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), kPiece));
    const auto written =
        attempt(path_, "write", [&] { return ::write(handle_, piece.data(), piece.size()); });
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

std::size_t File::read(std::span<std::byte> into) {
  std::size_t total = 0;
  while (total < into.size()) {
    const auto rest = into.subspan(total);
    const auto got =
        attempt(path_, "read", [&] { return ::read(handle_, rest.data(), rest.size()); });
    if (got == 0) break;
    total += static_cast<std::size_t>(got);
  }
  return total;
}

void File::sync() {
  attempt(path_, "sync", [&] { return ::fsync(handle_); });
}

void File::close() {
  attempt(path_, "close", [&] {
    const int result = ::close(handle_);
    const bool closed = result == 0 || errno == EINTR;  // Linux closes also when interrupted
    handle_ = -1;
    return closed ? 0 : result;
  });
}

void publish(const std::string& path, std::string_view content) {
  publish(path, [&](File& file) { file.write(content); });
}

void publish(const std::string& path, const std::function<void(File&)>& write) {
  const std::string aside = path + ".new";
  try {
    File file(aside);
    write(file);
    file.sync();
    file.close();
    attempt(path, "rename to", [&] { return std::rename(aside.c_str(), path.c_str()); });
  } catch (...) {
    ::unlink(aside.c_str());
    throw;
  }
  sync_folder(folder_of(path));
}

void sync_folder(const std::string& path) { File(path, O_RDONLY | O_DIRECTORY).sync(); }

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path();
  return folder.empty() ? "." : folder;
}

std::string read_file(const std::string& path, std::uint64_t most_bytes) {
  File file(path, O_RDONLY);
  std::string content;
  for (;;) {
    const std::size_t before = content.size();
    content.resize(before + kPiece);
    const std::size_t got =
        file.read(std::as_writable_bytes(std::span(content.data() + before, kPiece)));
    content.resize(before + got);
    if (content.size() > most_bytes)
      throw CorruptFile(path, most_bytes,
                        "the end of the file (at most " + std::to_string(most_bytes) + " bytes)");
    if (got < kPiece) return content;
  }
}

MappedFile::MappedFile(const std::string& path) {
  const File file(path, O_RDONLY);
  struct stat status = {};
  attempt(path, "examine", [&] { return ::fstat(file.handle(), &status); });
  if (S_ISDIR(status.st_mode)) throw IoError(path, "map", EISDIR);
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return;
  void* data = nullptr;
  attempt(path, "map", [&] {
    data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.handle(), 0);
    return data == MAP_FAILED ? -1 : 0;
  });
  data_ = {static_cast<const std::byte*>(data), Unmap{size}};
}

void MappedFile::Unmap::operator()(const std::byte* data) const {
  ::munmap(const_cast<std::byte*>(data), size);
}

}  // namespace lockstep::io
