#include "vision/idx_reader.h"

#include <lockstep/error.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>

namespace lockstep::vision {
namespace {

/// Reads a gzipped or plain file from start to end and knows where it is.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), file_(gzopen(path.c_str(), "rb")) {
    if (!file_) throw IoError(path, "open", errno ? errno : ENOMEM);
  }

  void read(void* to, std::size_t bytes, const char* what) {
    auto* out = static_cast<unsigned char*>(to);
    while (bytes > 0) {
      const auto piece = static_cast<unsigned>(std::min<std::size_t>(bytes, 1U << 30U));
      const int got = gzread(file_.get(), out, piece);
      if (got <= 0) fail(what);
      out += got;
      offset_ += static_cast<std::uint64_t>(got);
      bytes -= static_cast<std::size_t>(got);
    }
  }

  /// Throws unless the file ends here, its checksum (if gzipped) included.
  void expect_end() {
    unsigned char more = 0;
    const int got = gzread(file_.get(), &more, 1);
    int code = Z_OK;
    gzerror(file_.get(), &code);
    if (got != 0 || code != Z_OK) fail("the end of the file");
  }

  std::uint64_t offset() const { return offset_; }

 private:
  struct Close {
    void operator()(gzFile file) const { gzclose(file); }
  };

  [[noreturn]] void fail(const char* expected) {
    int code = Z_OK;
    gzerror(file_.get(), &code);
    if (code == Z_ERRNO) throw IoError(path_, "read", errno);
    throw CorruptFile(path_, offset_, expected);
  }

  const std::string path_;
  std::unique_ptr<gzFile_s, Close> file_;
  std::uint64_t offset_ = 0;
};

std::vector<std::int64_t> read_sizes(Reader& reader, const std::string& path) {
  constexpr unsigned char kBytes = 0x08;
  constexpr std::int64_t kMost = std::int64_t{1} << 34U;
  unsigned char magic[4] = {};
  reader.read(magic, sizeof magic, "an IDX file's first four bytes");
  if (magic[0] != 0 || magic[1] != 0 || magic[2] != kBytes || magic[3] < 1 || magic[3] > 4)
    throw CorruptFile(path, 0, "an IDX file of bytes with one to four dimensions (0 0 8 n)");
  std::vector<std::int64_t> sizes;
  std::int64_t total = 1;
  for (int i = 0; i < magic[3]; ++i) {
    unsigned char size[4] = {};
    reader.read(size, sizeof size, "the size of a dimension");
    sizes.push_back(static_cast<std::int64_t>(size[0]) << 24U | size[1] << 16U | size[2] << 8U |
                    size[3]);
    if (sizes.back() != 0 && total > kMost / sizes.back())
      throw CorruptFile(path, reader.offset() - 4, "dimensions of at most 16 GiB in all");
    total *= sizes.back();
  }
  return sizes;
}

}  // namespace

IdxContent read_idx_content(const std::string& path) {
  constexpr std::size_t kPiece = std::size_t{1} << 18U;
  Reader reader(path);
  IdxContent content{read_sizes(reader, path), {}};
  std::size_t total = 1;
  for (const std::int64_t size : content.sizes) total *= static_cast<std::size_t>(size);
  while (content.bytes.size() < total) {
    const std::size_t had = content.bytes.size();
    try {
      content.bytes.resize(std::min(total, had + kPiece));
    } catch (const std::bad_alloc&) {
      throw IoError(path, "hold " + std::to_string(total) + " bytes", ENOMEM);
    }
    reader.read(content.bytes.data() + had, content.bytes.size() - had,
                "as many bytes as the dimensions say");
  }
  reader.expect_end();
  return content;
}

}  // namespace lockstep::vision
