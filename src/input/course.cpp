#include <lockstep/input/shuffle.h>
#include <lockstep/input/stream.h>

namespace lockstep::input {
namespace {

std::string text(const Position& position) {
  std::string result;
  for (const std::int64_t number : position)
    result += (result.empty() ? "" : ", ") + std::to_string(number);
  return "(" + result + ")";
}

}  // namespace

Course::Course(std::int64_t size, std::int64_t epochs)
    : size_(size), end_(size == 0 || epochs <= kEndless / size ? size * epochs : kEndless) {
  if (epochs < 0) throw ConfigError("input: " + std::to_string(epochs) + " epochs were asked for");
}

std::int64_t Course::number(const Position& position) const {
  if (position.size() == 2) {
    const std::int64_t epoch = position[0], index = position[1];
    if (epoch == 0 && index == 0) return 0;
    const bool fits = epoch >= 0 && index >= 0 && index < size_ && epoch < kEndless / size_;
    if (fits && epoch * size_ + index <= end_) return epoch * size_ + index;
  }
  throw ConfigError("input: " + text(position) + " is no position (epoch, index) of an input of " +
                    std::to_string(size_) + " items an epoch and " + std::to_string(end_) +
                    " in all; is it of another data set or batch size?");
}

std::pair<Position, std::int64_t> without_last(const Position& position, std::int64_t limit) {
  if (position.size() < 2 || position.back() < 0 || position.back() >= limit)
    throw ConfigError("shuffle: " + text(position) + " is no position in windows of " +
                      std::to_string(limit) + " items");
  return {Position(position.begin(), position.end() - 1), position.back()};
}

}  // namespace lockstep::input
