#pragma once

// Streams: a source gone through epoch by epoch, and decorators for streams of any kind.
//
// When an item cannot be made, next() throws and the stream stays where it is: call it again to try
// again, or seek to leave the item out.

#include <lockstep/error.h>
#include <lockstep/input/source.h>
#include <lockstep/stream.h>

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep::input {

inline constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max();

/// Numbers the items of `epochs` epochs of `size` items each; knows their positions {epoch, index}.
class Course {
 public:
  Course(std::int64_t size, std::int64_t epochs);

  std::int64_t end() const { return end_; }
  std::int64_t epoch(std::int64_t number) const { return size_ == 0 ? 0 : number / size_; }
  std::int64_t index(std::int64_t number) const { return size_ == 0 ? 0 : number % size_; }
  Position position(std::int64_t number) const { return {epoch(number), index(number)}; }
  std::int64_t number(const Position& position) const;  ///< Throws ConfigError if it is not one.

 private:
  std::int64_t size_;
  std::int64_t end_;
};

template <Source S>
class SourceStream : public Stream<ItemOf<S>> {
 public:
  SourceStream(S source, std::int64_t epochs)
      : source_(std::move(source)), course_(source_.size(), epochs) {}

  std::optional<ItemOf<S>> next() override {
    if (number_ == course_.end()) return std::nullopt;
    Made<ItemOf<S>> next = made(source_, course_.epoch(number_), course_.index(number_), share_);
    ++number_;
    portion_ = next.portion;
    return std::move(next.item);
  }

  Position position() const override { return course_.position(number_); }
  void seek(const Position& position) override { number_ = course_.number(position); }

  bool share(const Share& share) override {
    require_valid(share);
    share_ = share;
    return MakesRows<S> || share.whole();
  }
  Portion portion() const override { return portion_; }

 private:
  S source_;
  Course course_;
  std::int64_t number_ = 0;
  Share share_;
  Portion portion_;
};

/// The items of a source in order, epoch after epoch. Position: {epoch, index}.
template <Source S>
std::unique_ptr<Stream<ItemOf<S>>> stream(S source, std::int64_t epochs = kEndless) {
  return std::make_unique<SourceStream<S>>(std::move(source), epochs);
}

/// Calls `read`; if that throws, takes the stream back to where it was.
template <class T, class Read>
auto or_stay(Stream<T>& stream, const Read& read) {
  const Position before = stream.position();
  try {
    return read();
  } catch (...) {
    stream.seek(before);
    throw;
  }
}

/// The next items of a stream: at most `most`, and all of one epoch.
template <class T>
std::vector<T> take_of_epoch(Stream<T>& stream, std::size_t most) {
  std::vector<T> items;
  const std::int64_t epoch = stream.position().front();
  while (items.size() < most && stream.position().front() == epoch) {
    std::optional<T> item = stream.next();
    if (!item) break;
    items.push_back(std::move(*item));
  }
  return items;
}

template <class T, class Fn>
class MappedStream : public Stream<std::decay_t<std::invoke_result_t<Fn&, T>>> {
 public:
  using Item = std::decay_t<std::invoke_result_t<Fn&, T>>;
  MappedStream(std::unique_ptr<Stream<T>> inner, Fn fn)
      : inner_(std::move(inner)), fn_(std::move(fn)) {}

  std::optional<Item> next() override {
    return or_stay(*inner_, [&]() -> std::optional<Item> {
      std::optional<T> item = inner_->next();
      if (!item) return std::nullopt;
      if constexpr (kShares)
        if (const Portion had = inner_->portion(); !had.whole() && had.range().empty())
          return Item{};
      return fn_(std::move(*item));
    });
  }

  Position position() const override { return inner_->position(); }
  void seek(const Position& position) override { inner_->seek(position); }

  bool share(const Share& share) override { return kShares ? inner_->share(share) : share.whole(); }
  Portion portion() const override { return inner_->portion(); }

 private:
  static constexpr bool kShares = kByRows<Fn> && std::default_initializable<Item>;

  std::unique_ptr<Stream<T>> inner_;
  Fn fn_;
};

/// fn(item) for each item; `fn` keeps no state of its own. A function of batches is given whole
/// ones, unless it says by_rows().
template <class T, class Fn>
auto map(std::unique_ptr<Stream<T>> inner, Fn fn) {
  using Result = MappedStream<T, Fn>;
  return std::unique_ptr<Stream<typename Result::Item>>(
      std::make_unique<Result>(std::move(inner), std::move(fn)));
}

}  // namespace lockstep::input
