#include "line_input.h"

#include <lockstep/error.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace lockstep::apps {
namespace {

constexpr std::size_t kMostLines = 1024;
constexpr std::size_t kRead = std::size_t{64} << 10U;

}  // namespace

/// Waits so long, -1: until there is something, or a signal came.
bool LineInput::ready(int milliseconds) const {
  pollfd input{.fd = descriptor_, .events = POLLIN, .revents = 0};
  return ::poll(&input, 1, milliseconds) > 0;
}

/// False at the end.
bool LineInput::read_more() {
  std::string more(kRead, '\0');
  const ssize_t count = ::read(descriptor_, more.data(), more.size());
  if (count < 0 && errno == EINTR) return true;
  if (count < 0) throw IoError("the standard input", "read", errno);
  buffer_.append(more, 0, static_cast<std::size_t>(count));
  return count > 0;
}

void LineInput::end_line(std::vector<InputLine>& lines) {
  if (!line_.text.empty() && line_.text.back() == '\r') line_.text.pop_back();
  lines.push_back(std::move(line_));
  line_ = {};
  begun_ = false;
}

/// Moves lines from the buffer, and the beginning of the next one.
void LineInput::cut(std::vector<InputLine>& lines) {
  std::size_t at = 0, bytes = 0;
  while (at < buffer_.size() && lines.size() < kMostLines && bytes < kMostLineBytes) {
    const std::size_t end = std::min(buffer_.find('\n', at), buffer_.size());
    begun_ = true;
    if (!line_.too_long) line_.text.append(buffer_, at, end - at);
    bytes += end - at;
    if (line_.text.size() > kMostLineBytes) line_ = {.text = {}, .too_long = true};
    if (end < buffer_.size()) end_line(lines);
    at = end + 1;
  }
  buffer_.erase(0, at);
}

std::vector<InputLine> LineInput::take() {
  std::vector<InputLine> lines;
  cut(lines);
  while (lines.size() < kMostLines && !ended_ && !stop_()) {
    if (!ready(lines.empty() ? -1 : 0)) {
      if (lines.empty()) continue;  // a signal came
      break;
    }
    ended_ = !read_more();
    cut(lines);
    if (buffer_.size() > kMostLineBytes) break;
  }
  if (ended_ && begun_ && buffer_.empty()) end_line(lines);
  return lines;
}

}  // namespace lockstep::apps
