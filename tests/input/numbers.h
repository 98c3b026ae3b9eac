#pragma once

// Sources and streams of numbers, and what must hold of every stream.

#include <gtest/gtest.h>
#include <lockstep/input/stream.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

namespace lockstep::tests {

using Numbers = std::vector<std::int64_t>;

/// Item i of epoch e is 1000 e + i.
struct Counting {
  std::int64_t count = 0;
  std::int64_t size() const { return count; }
  std::int64_t at(std::int64_t epoch, std::int64_t index) const { return 1000 * epoch + index; }
};

/// The same as a stream that is no source: it can only be read on, and knows its place.
class CountingStream : public Stream<std::int64_t> {
 public:
  CountingStream(std::int64_t count, std::int64_t epochs) : count_(count), epochs_(epochs) {}

  std::optional<std::int64_t> next() override {
    if (epoch_ == epochs_) return std::nullopt;
    ++reads;
    const std::int64_t item = 1000 * epoch_ + index_;
    if (item == fails_at) {
      index_ = (index_ + 1) % count_;  // and does not stay where it was
      fails_at = -1;
      throw std::runtime_error("no item " + std::to_string(item));
    }
    if (++index_ == count_) {
      ++epoch_;
      index_ = 0;
    }
    return item;
  }

  Position position() const override { return {epoch_, index_, 77}; }

  void seek(const Position& position) override {
    if (position.size() != 3 || position[2] != 77 || position[0] > epochs_ || position[1] >= count_)
      throw ConfigError("no such position");
    epoch_ = position[0];
    index_ = position[1];
  }

  int reads = 0;
  std::int64_t fails_at = -1;  ///< once

 private:
  std::int64_t count_, epochs_;
  std::int64_t epoch_ = 0, index_ = 0;
};

template <class T>
std::vector<T> rest_of(Stream<T>& stream) {
  std::vector<T> items;
  while (std::optional<T> item = stream.next()) items.push_back(std::move(*item));
  EXPECT_FALSE(stream.next().has_value()) << "there is more after the end";
  return items;
}

template <class T>
std::vector<T> rest_of(const std::unique_ptr<Stream<T>>& stream) {
  return rest_of(*stream);
}

/// From every position that a stream has had, a new stream and the used one have the same rest.
template <class Make>
void expect_restorable(const Make& make) {
  auto stream = make();
  std::vector<Position> positions{stream->position()};
  const auto first = stream->next();
  ASSERT_TRUE(first.has_value());
  std::vector<std::decay_t<decltype(*first)>> items{*first};
  positions.push_back(stream->position());
  while (auto item = stream->next()) {
    items.push_back(std::move(*item));
    positions.push_back(stream->position());
  }
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const std::vector<typename decltype(items)::value_type> rest(
        items.begin() + static_cast<std::ptrdiff_t>(i), items.end());
    auto other = make();
    other->seek(positions[i]);
    EXPECT_EQ(other->position(), positions[i]);
    EXPECT_EQ(rest_of(other), rest) << "from item " << i << " of a new stream";
    stream->seek(positions[i]);
    EXPECT_EQ(rest_of(stream), rest) << "from item " << i << " of the same stream";
    stream->seek(positions[i / 2]);  // left in the middle
    stream->next();
  }
}

/// A position that cannot be one is refused, and changes nothing.
template <class T>
void expect_refused(Stream<T>& stream, const Position& position) {
  const Position before = stream.position();
  EXPECT_THROW(stream.seek(position), ConfigError);
  EXPECT_EQ(stream.position(), before);
}

}  // namespace lockstep::tests
