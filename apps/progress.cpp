#include "progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace lockstep::apps {
namespace {

using Seconds = std::chrono::duration<double>;

/// Columns of the terminal; a line that is longer would wrap and stay.
std::size_t columns() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

}  // namespace

Progress::Progress(std::string title, long total)
    : title_(std::move(title)),
      total_(total),
      terminal_(isatty(STDOUT_FILENO) != 0),
      begin_(Clock::now()),
      shown_(begin_) {}

void Progress::show(long done, const std::string& text) {
  const auto now = Clock::now();
  const auto pause = terminal_ ? Seconds(0.1) : Seconds(10);
  if (done < total_ && now - shown_ < pause) return;
  shown_ = now;
  constexpr long kWidth = 24;
  const long filled = total_ > 0 ? kWidth * done / total_ : kWidth;
  const double left = Seconds(now - begin_).count() / static_cast<double>(done > 0 ? done : 1) *
                      static_cast<double>(total_ - done);
  std::string line = title_ + " [" + std::string(static_cast<std::size_t>(filled), '#') +
                     std::string(static_cast<std::size_t>(kWidth - filled), '.') + "] " +
                     std::to_string(done) + "/" + std::to_string(total_) + "  " +
                     std::to_string(static_cast<long>(left + 0.5)) + " s left  " + text;
  if (!terminal_) {
    std::printf("%s\n", line.c_str());
  } else {
    line.resize(std::min(line.size(), columns() - 1));
    std::printf("\r\033[K%s", line.c_str());
  }
  std::fflush(stdout);
}

void Progress::finish(const std::string& text) {
  std::printf(terminal_ ? "\r\033[K%s %s\n" : "%s %s\n", title_.c_str(), text.c_str());
  std::fflush(stdout);
}

}  // namespace lockstep::apps
