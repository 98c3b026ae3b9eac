#include "terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace lockstep::apps {
namespace {

/// Columns of the terminal; a line that is longer would wrap and stay.
std::size_t columns() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

}  // namespace

StatusLine::StatusLine() : terminal_(isatty(STDOUT_FILENO) != 0) {}

StatusLine::~StatusLine() { erase(); }

bool StatusLine::due() const {
  using std::chrono::steady_clock;
  return terminal_ && (!shown_ || steady_clock::now() - last_ > std::chrono::milliseconds(100));
}

void StatusLine::show(const std::string& text) {
  if (!terminal_) return;
  last_ = std::chrono::steady_clock::now();
  shown_ = true;
  std::printf("\r\033[K%s", text.substr(0, columns() - 1).c_str());
  std::fflush(stdout);
}

void StatusLine::print(const std::string& text) {
  erase();
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

void StatusLine::erase() {
  if (!shown_) return;
  std::printf("\r\033[K");
  std::fflush(stdout);
  shown_ = false;
}

std::string bar(double part, int width) {
  const auto filled = static_cast<std::size_t>(std::clamp(part, 0.0, 1.0) * width);
  std::string text(static_cast<std::size_t>(width) + 2, '.');
  text.front() = '[';
  text.back() = ']';
  std::fill_n(text.begin() + 1, filled, '#');
  return text;
}

std::string format(const char* pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

}  // namespace lockstep::apps
