#include "base/file.h"

#include <lockstep/error.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/system_call.h"

namespace lockstep::base {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20U;

template <class Content>
Content read_all(const std::string& path, std::uint64_t most_bytes) {
  File file(path, O_RDONLY);
  Content content;
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

}  // namespace

File::File(std::string path, int flags)
    : path_(std::move(path)),
      handle_(
          attempt(path_, "open", [&] { return ::open(path_.c_str(), flags | O_CLOEXEC, 0644); })) {}

File File::beside(const std::string& path) {
  std::string aside = path + ".new";
  const int handle = attempt(aside, "open", [&] {
    for (int n = 2;; ++n) {
      const int made = ::open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
      if (made >= 0 || errno != EEXIST) return made;
      aside = path + ".new" + std::to_string(n);
    }
  });
  return File(std::move(aside), handle, nullptr);
}

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

void File::seek(std::uint64_t offset) {
  attempt(path_, "seek in", [&] { return ::lseek(handle_, static_cast<off_t>(offset), SEEK_SET); });
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
  NewFile made(path);
  write(made.file());
  made.commit();
}

NewFile::NewFile(std::string path) : path_(std::move(path)), file_(File::beside(path_)) {}

NewFile::~NewFile() {
  if (!committed_) ::unlink(file_.path().c_str());
}

void NewFile::commit() {
  file_.sync();
  file_.close();
  attempt(path_, "rename to", [&] { return std::rename(file_.path().c_str(), path_.c_str()); });
  committed_ = true;
  sync_folder(folder_of(path_));
}

void sync_folder(const std::string& path) { File(path, O_RDONLY | O_DIRECTORY).sync(); }

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path();
  return folder.empty() ? "." : folder;
}

std::string read_file(const std::string& path, std::uint64_t most_bytes) {
  return read_all<std::string>(path, most_bytes);
}

std::vector<std::uint8_t> read_bytes(const std::string& path, std::uint64_t most_bytes) {
  return read_all<std::vector<std::uint8_t>>(path, most_bytes);
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

}  // namespace lockstep::base
