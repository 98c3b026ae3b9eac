#include "file_bytes.h"

#include <fcntl.h>
#include <lockstep/error.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace lockstep::base {
namespace {

class File {
 public:
  explicit File(const std::string& path)
      : path_(path), handle_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (handle_ < 0) throw IoError(path, "open", errno);
  }
  ~File() { ::close(handle_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  /// 0 at the end.
  std::size_t read(std::uint8_t* to, std::size_t most) {
    while (true) {
      const ssize_t got = ::read(handle_, to, most);
      if (got >= 0) return static_cast<std::size_t>(got);
      if (errno != EINTR) throw IoError(path_, "read", errno);
    }
  }

 private:
  const std::string path_;
  const int handle_;
};

}  // namespace

std::vector<std::uint8_t> file_bytes(const std::string& path, std::uint64_t most) {
  constexpr std::size_t kPiece = std::size_t{1} << 18U;
  File file(path);
  std::vector<std::uint8_t> bytes;
  while (bytes.size() <= most) {
    const std::size_t had = bytes.size();
    bytes.resize(had + kPiece);
    const std::size_t got = file.read(bytes.data() + had, kPiece);
    bytes.resize(had + got);
    if (got == 0) return bytes;
  }
  throw CorruptFile(path, most, "the end of the file");
}

}  // namespace lockstep::base
