#include "pair_file.h"

#include <fcntl.h>
#include <lockstep/error.h>
#include <lockstep/text/pair_file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>
#include <string_view>
#include <utility>

namespace lockstep::text {

namespace {

/// Calls `action`, a system call, again when a signal interrupts it.
template <class Action>
auto attempt(const std::string& path, const char* verb, const Action& action) {
  while (true) {
    const auto result = action();
    if (result >= 0) return result;
    if (errno != EINTR) throw IoError(path, verb, errno);
  }
}

class Handle {
 public:
  Handle(const std::string& path, int flags)
      : number_(
            attempt(path, "open", [&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0644); })) {}
  ~Handle() { ::close(number_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  int number() const { return number_; }

 private:
  const int number_;
};

}  // namespace

class PairFileWriter::Impl {
 public:
  Impl(std::string path, const std::string& key) : path_(std::move(path)), aside_(path_ + ".new") {
    header_.key_bytes = key.size();
    append(&header_, sizeof header_);
    append(key.data(), key.size());
    fill_up(key.size());
  }

  void add(const TokenPair& pair) {
    constexpr std::size_t kMost = 0xffffffffU;
    check(!pair.source.empty(), "PairFileWriter::add: the source has at least one token");
    check(pair.source.size() <= kMost && pair.target.size() <= kMost,
          "PairFileWriter::add: a sequence has at most 2^32 - 1 tokens");
    for (const auto& tokens : {pair.source, pair.target}) {
      append(tokens.data(), tokens.size_bytes());
      lengths_.push_back(static_cast<std::uint32_t>(tokens.size()));
      header_.tokens += tokens.size();
    }
    ++header_.pairs;
  }

  void finish() {
    fill_up(header_.tokens * sizeof(std::int32_t));
    std::uint64_t begin = 0;
    append(&begin, sizeof begin);
    for (const std::uint32_t length : lengths_) {
      begin += length;
      append(&begin, sizeof begin);
    }
    write_out();
    attempt(aside_.path, "seek in", [&] { return ::lseek(aside_.file.number(), 0, SEEK_SET); });
    append(&header_, sizeof header_);
    write_out();
    attempt(aside_.path, "sync", [&] { return ::fsync(aside_.file.number()); });
    attempt(path_, "rename to", [&] { return std::rename(aside_.path.c_str(), path_.c_str()); });
    aside_.published = true;
    const std::string parent = std::filesystem::path(path_).parent_path();
    const std::string folder = parent.empty() ? "." : parent;
    const Handle names(folder, O_RDONLY | O_DIRECTORY);
    attempt(folder, "sync", [&] { return ::fsync(names.number()); });
  }

 private:
  struct Aside {
    explicit Aside(std::string name)
        : path(std::move(name)), file(path, O_WRONLY | O_CREAT | O_TRUNC) {}
    ~Aside() {
      if (!published) ::unlink(path.c_str());
    }
    Aside(const Aside&) = delete;
    Aside& operator=(const Aside&) = delete;

    const std::string path;
    const Handle file;
    bool published = false;
  };

  void append(const void* data, std::size_t bytes) {
    constexpr std::size_t kPiece = std::size_t{1} << 18U;
    buffer_.append(static_cast<const char*>(data), bytes);
    if (buffer_.size() >= kPiece) write_out();
  }

  void fill_up(std::uint64_t bytes) { buffer_.append(filled(bytes) - bytes, '\0'); }

  void write_out() {
    std::string_view rest = buffer_;
    while (!rest.empty())
      rest.remove_prefix(static_cast<std::size_t>(attempt(aside_.path, "write", [&] {
        return ::write(aside_.file.number(), rest.data(), rest.size());
      })));
    buffer_.clear();
  }

  const std::string path_;
  Aside aside_;
  PairFileHeader header_;
  std::deque<std::uint32_t> lengths_;  // a vector would take up to three times as much to grow
  std::string buffer_;
};

PairFileWriter::PairFileWriter(std::string path, std::string key)
    : impl_(std::make_unique<Impl>(std::move(path), key)) {}
PairFileWriter::~PairFileWriter() = default;
void PairFileWriter::add(const TokenPair& pair) { impl_->add(pair); }
void PairFileWriter::finish() { impl_->finish(); }

class PairFile::Mapping {
 public:
  explicit Mapping(const std::string& path) : path_(path) {
    map();
    const PairFileHeader header = checked_header();
    const char* at = bytes() + sizeof header;
    key.assign(at, header.key_bytes);
    at += filled(header.key_bytes);
    tokens = reinterpret_cast<const std::int32_t*>(at);
    at += filled(header.tokens * sizeof *tokens);
    begins = {reinterpret_cast<const std::uint64_t*>(at), 2 * header.pairs + 1};
    check_begins(header.tokens);
  }

  std::string key;
  const std::int32_t* tokens;
  std::span<const std::uint64_t> begins;  // of sources (even) and targets (odd), and the end

 private:
  struct Unmap {
    std::size_t size;
    void operator()(void* data) const { ::munmap(data, size); }
  };

  const char* bytes() const { return static_cast<const char*>(data_.get()); }
  std::uint64_t size() const { return data_.get_deleter().size; }

  void map() {
    const Handle file(path_, O_RDONLY);
    struct stat status = {};
    attempt(path_, "examine", [&] { return ::fstat(file.number(), &status); });
    if (S_ISDIR(status.st_mode)) throw IoError(path_, "map", EISDIR);
    const auto size = static_cast<std::size_t>(status.st_size);
    if (size < sizeof(PairFileHeader)) throw CorruptFile(path_, size, "the head of a pair file");
    void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.number(), 0);
    if (data == MAP_FAILED) throw IoError(path_, "map", errno);
    data_ = {data, Unmap{size}};
  }

  /// Whose counts make up the size of the file.
  PairFileHeader checked_header() const {
    PairFileHeader header;
    std::memcpy(&header, bytes(), sizeof header);
    if (header.magic != kPairMagic) throw CorruptFile(path_, 0, "a pair file (LOCKPAIR)");
    if (header.version != kPairVersion)
      throw CorruptFile(
          path_, offsetof(PairFileHeader, version),
          "version " + std::to_string(kPairVersion) + ", not " + std::to_string(header.version));
    // Counts beyond the size are refused before they can overflow the sum.
    const bool possible =
        header.key_bytes <= size() && header.tokens <= size() && header.pairs <= size();
    const std::uint64_t expected = possible ? sizeof header + filled(header.key_bytes) +
                                                  filled(header.tokens * sizeof(std::int32_t)) +
                                                  (2 * header.pairs + 1) * sizeof(std::uint64_t)
                                            : 0;
    if (expected != size())
      throw CorruptFile(path_, offsetof(PairFileHeader, key_bytes),
                        "counts that make up the file's " + std::to_string(size()) + " bytes");
    return header;
  }

  void check_begins(std::uint64_t end) const {
    const auto refuse = [&](std::size_t i) {
      const auto* at = reinterpret_cast<const char*>(&begins[i]);
      throw CorruptFile(path_, static_cast<std::uint64_t>(at - bytes()),
                        "where a sequence of tokens begins, not " + std::to_string(begins[i]));
    };
    if (begins.front() != 0) refuse(0);
    for (std::size_t i = 1; i < begins.size(); ++i) {
      const bool source = i % 2 == 1;
      if (begins[i] < begins[i - 1] || (source && begins[i] == begins[i - 1])) refuse(i);
    }
    if (begins.back() != end) refuse(begins.size() - 1);
  }

  const std::string path_;
  std::unique_ptr<void, Unmap> data_ = {nullptr, Unmap{0}};
};

PairFile::PairFile(const std::string& path) : mapping_(std::make_shared<const Mapping>(path)) {}

std::int64_t PairFile::size() const {
  return static_cast<std::int64_t>(mapping_->begins.size() / 2);
}

TokenPair PairFile::operator[](std::int64_t index) const {
  check(index >= 0 && index < size(), "PairFile: there is no pair of that number");
  const std::uint64_t* begin = &mapping_->begins[static_cast<std::size_t>(index) * 2];
  const auto sequence = [&](int side) {
    return std::span(mapping_->tokens + begin[side], begin[side + 1] - begin[side]);
  };
  return {sequence(0), sequence(1)};
}

const std::string& PairFile::key() const { return mapping_->key; }

}  // namespace lockstep::text
