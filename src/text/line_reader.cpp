#include "text/line_reader.h"

#include <lockstep/error.h>

#include <algorithm>
#include <cerrno>

#include "base/utf8.h"

namespace lockstep::text {

LineReader::LineReader(std::string path)
    : path_(std::move(path)), file_(std::fopen(path_.c_str(), "rbe")) {
  if (!file_) throw IoError(path_, "open", errno);
  std::setvbuf(file_.get(), nullptr, _IONBF, 0);  // buffer_ is the buffer
}

/// More bytes after those that are still to be read; false at the end of the file.
bool LineReader::fill() {
  constexpr std::size_t kPiece = std::size_t{1} << 16U;
  std::move(buffer_.begin() + static_cast<std::ptrdiff_t>(from_),
            buffer_.begin() + static_cast<std::ptrdiff_t>(to_), buffer_.begin());
  to_ -= from_;
  from_ = 0;
  if (buffer_.size() < to_ + kPiece) buffer_.resize(std::max(to_ + kPiece, 2 * buffer_.size()));
  const std::size_t got = std::fread(buffer_.data() + to_, 1, kPiece, file_.get());
  if (got < kPiece && std::ferror(file_.get())) throw IoError(path_, "read", errno);
  to_ += got;
  return got > 0;
}

bool LineReader::next() {
  start_ += size_;
  size_ = 0;
  std::size_t end = unread().find('\n');
  while (end == std::string_view::npos && unread().size() <= kMostTextBytes) {
    const std::size_t searched = unread().size();
    if (!fill()) break;
    end = unread().find('\n', searched);
  }
  const std::string_view rest = unread();
  if (std::min(end, rest.size()) > kMostTextBytes)
    throw CorruptFile(path_, start_,
                      "at most " + std::to_string(kMostTextBytes) + " bytes in line " +
                          std::to_string(number_ + 1));
  if (rest.empty()) return false;
  ++number_;
  size_ = end == std::string_view::npos ? rest.size() : end + 1;
  from_ += size_;
  line_ = rest.substr(0, end);
  if (number_ == 1 && line_.starts_with(base::kByteOrderMark))
    line_.remove_prefix(base::kByteOrderMark.size());
  return true;
}

}  // namespace lockstep::text
