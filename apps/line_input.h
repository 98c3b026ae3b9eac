#pragma once

// Lines of a file descriptor, in bounded memory.

#include <functional>
#include <string>
#include <vector>

namespace lockstep::apps {

struct InputLine {
  std::string text;
  bool too_long = false;  ///< it had more than kMostLineBytes, and its text is not kept
};

inline constexpr std::size_t kMostLineBytes = std::size_t{1} << 20U;

class LineInput {
 public:
  /// `stop` is asked whenever it waits or has read something: true ends the input.
  LineInput(int descriptor, std::function<bool()> stop)
      : descriptor_(descriptor), stop_(std::move(stop)) {}

  /// Waits for a line, then takes what is there, up to 1024 of them or about 1 MiB. Without the
  /// line ends, LF or CR LF. Empty at the end. Throws IoError.
  std::vector<InputLine> take();

 private:
  bool ready(int milliseconds) const;
  bool read_more();
  void cut(std::vector<InputLine>& lines);
  void end_line(std::vector<InputLine>& lines);

  const int descriptor_;
  const std::function<bool()> stop_;
  InputLine line_;      ///< that has begun
  bool begun_ = false;  ///< something of it was read
  std::string buffer_;  ///< that was read and is not cut into lines yet
  bool ended_ = false;
};

}  // namespace lockstep::apps
