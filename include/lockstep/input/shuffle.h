#pragma once

// Shuffling a stream, window by window.

#include <lockstep/input/stream.h>

namespace lockstep::input {

/// `inner` position and the integer appended to it. Throws ConfigError unless 0 <= it < `limit`.
std::pair<Position, std::int64_t> without_last(const Position& position, std::int64_t limit);

/// A window is read as a whole, so batches in it are whole ones.
template <class T>
class ShuffledStream : public Stream<T> {
 public:
  ShuffledStream(std::unique_ptr<Stream<T>> inner, std::int64_t window, std::uint64_t seed)
      : inner_(std::move(inner)), window_(window), seed_(seed) {
    if (window < 1)
      throw ConfigError("shuffle: a window has at least one item: " + std::to_string(window) +
                        " were asked for");
  }

  std::optional<T> next() override {
    if (taken_ == size()) {
      auto [start, items] = read_window();
      start_ = std::move(start);
      items_ = std::move(items);
      taken_ = 0;
    }
    if (items_.empty()) return std::nullopt;
    const std::int64_t place =
        permuted(taken_, size(), combined_seed(seed_, start_), start_.front());
    ++taken_;
    return std::move(items_[static_cast<std::size_t>(place)]);
  }

  Position position() const override {
    const bool inside = taken_ < size();
    Position result = inside ? start_ : inner_->position();
    result.push_back(inside ? taken_ : 0);
    return result;
  }

  void seek(const Position& position) override {
    const auto [start, taken] = without_last(position, window_);
    or_stay(*inner_, [&, &own = start, count = taken] {
      inner_->seek(own);
      std::vector<T> items;
      if (count > 0) items = read_window().second;
      if (count > 0 && count >= static_cast<std::int64_t>(items.size()))
        throw ConfigError("shuffle: the position is item " + std::to_string(count) +
                          " of a window that has only " + std::to_string(items.size()));
      start_ = own;
      items_ = std::move(items);
      taken_ = count;
    });
  }

 private:
  std::int64_t size() const { return static_cast<std::int64_t>(items_.size()); }

  std::pair<Position, std::vector<T>> read_window() {
    return or_stay(*inner_, [&] {
      Position start = inner_->position();
      return std::pair(std::move(start), take_of_epoch(*inner_, static_cast<std::size_t>(window_)));
    });
  }

  std::unique_ptr<Stream<T>> inner_;
  std::int64_t window_;
  std::uint64_t seed_;
  Position start_;        // of the window
  std::vector<T> items_;  // of the window; those taken are moved from
  std::int64_t taken_ = 0;
};

/// The items of each window of `window` items in an order of their own, that belongs to the seed
/// and the window's place. Position: the window's, and the items taken from it; going there reads
/// one window. A window ends with its epoch.
template <class T>
std::unique_ptr<Stream<T>> shuffle(std::unique_ptr<Stream<T>> inner, std::int64_t window,
                                   std::uint64_t seed) {
  return std::make_unique<ShuffledStream<T>>(std::move(inner), window, seed);
}

}  // namespace lockstep::input
