#pragma once

// Files as a trainer needs them: every failure is an IoError with the path and the errno, and what
// is published under a name is whole.

#include <fcntl.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::base {

/// An open file. The destructor closes without a word: call close() to hear of its errors.
class File {
 public:
  static constexpr int kCreate = O_WRONLY | O_CREAT | O_TRUNC;
  static constexpr int kAppend = O_WRONLY | O_CREAT | O_APPEND;

  /// `flags` are those of open(2); O_CLOEXEC is added.
  explicit File(std::string path, int flags = kCreate);

  /// A new file, to be written: the first of `path`.new, `path`.new2, ... that nothing has.
  static File beside(const std::string& path);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  /// Writes all of `bytes`, or throws.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }

  /// Reads up to the size of `into`; fewer bytes only at the end of the file. Returns how many.
  std::size_t read(std::span<std::byte> into);

  /// What is written next goes to `offset`.
  void seek(std::uint64_t offset);

  /// Returns when what was written is on the disk.
  void sync();

  /// No other call may follow.
  void close();

  const std::string& path() const { return path_; }
  int handle() const { return handle_; }

 private:
  File(std::string path, int handle, std::nullptr_t) : path_(std::move(path)), handle_(handle) {}

  std::string path_;
  int handle_;
};

/// A file that appears under `path` whole or not at all: what is there stays until commit(),
/// whatever fails and whenever the machine stops. Until then it is a File::beside(path), which the
/// destructor removes.
class NewFile {
 public:
  explicit NewFile(std::string path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  File& file() { return file_; }

  /// Syncs, renames, syncs the folder. When only the last fails the new content is there, and may
  /// not survive a power cut. Last, and once.
  void commit();

 private:
  std::string path_;
  File file_;
  bool committed_ = false;
};

/// Makes a NewFile of `content`.
void publish(const std::string& path, std::string_view content);

/// The same for content that `write` writes.
void publish(const std::string& path, const std::function<void(File&)>& write);

/// Makes the names in a folder durable: files created, renamed or removed in it.
void sync_folder(const std::string& path);

/// The folder that `path` is in; "." for a bare name.
std::string folder_of(const std::string& path);

/// The whole file. Throws CorruptFile when it is larger than `most_bytes`.
std::string read_file(const std::string& path, std::uint64_t most_bytes);
std::vector<std::uint8_t> read_bytes(const std::string& path, std::uint64_t most_bytes);

/// A file's bytes, read-only, paged in as they are touched. As with every mapping, a file that is
/// cut short or a disk that fails while it is read ends the process (SIGBUS).
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);

  /// Valid as long as the MappedFile; empty for an empty file.
  std::span<const std::byte> bytes() const { return {data_.get(), data_.get_deleter().size}; }

 private:
  struct Unmap {
    std::size_t size;
    void operator()(const std::byte* data) const;
  };
  std::unique_ptr<const std::byte, Unmap> data_{nullptr, Unmap{0}};
};

}  // namespace lockstep::base
