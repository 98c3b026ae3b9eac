#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/pair_rules.h"

namespace lockstep::text {

/// The lines of a file from the first to the last; only one is in memory. They end in LF (a CR
/// before it is white space like any other); a byte order mark is dropped.
class LineReader {
 public:
  /// Throws IoError.
  explicit LineReader(std::string path);

  /// False at the end. What line() gave before is gone. Throws IoError, or CorruptFile for a line
  /// with more than kMostTextBytes.
  bool next();

  /// Of the line that next() went to.
  std::string_view line() const { return line_; }
  Place place() const { return {path_, number_, start_}; }

  const std::string& path() const { return path_; }
  std::uint64_t lines() const { return number_; }          ///< so far
  std::uint64_t offset() const { return start_ + size_; }  ///< where the next line begins

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string_view unread() const { return {buffer_.data() + from_, to_ - from_}; }
  bool fill();

  const std::string path_;
  const std::unique_ptr<std::FILE, Close> file_;
  std::vector<char> buffer_;
  std::size_t from_ = 0;  ///< what of the buffer is still to be read
  std::size_t to_ = 0;
  std::string_view line_;
  std::uint64_t number_ = 0;
  std::uint64_t start_ = 0;
  std::uint64_t size_ = 0;  ///< of the line, its end included
};

}  // namespace lockstep::text
