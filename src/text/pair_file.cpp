#include "text/pair_file.h"

#include <lockstep/error.h>
#include <lockstep/text/pair_file.h>

#include <cstddef>
#include <cstring>
#include <deque>
#include <utility>

#include "base/file.h"

namespace lockstep::text {

class PairFileWriter::Impl {
 public:
  Impl(std::string path, const std::string& key) : made_(std::move(path)) {
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
    made_.file().seek(0);
    append(&header_, sizeof header_);
    write_out();
    made_.commit();
  }

 private:
  void append(const void* data, std::size_t bytes) {
    constexpr std::size_t kPiece = std::size_t{1} << 18U;
    buffer_.append(static_cast<const char*>(data), bytes);
    if (buffer_.size() >= kPiece) write_out();
  }

  void fill_up(std::uint64_t bytes) { buffer_.append(filled(bytes) - bytes, '\0'); }

  void write_out() {
    made_.file().write(buffer_);
    buffer_.clear();
  }

  base::NewFile made_;
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
  explicit Mapping(const std::string& path) : path_(path), file_(path) {
    if (size() < sizeof(PairFileHeader))
      throw CorruptFile(path_, size(), "the head of a pair file");
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
  const char* bytes() const { return reinterpret_cast<const char*>(file_.bytes().data()); }
  std::uint64_t size() const { return file_.bytes().size(); }

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
  const base::MappedFile file_;
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
