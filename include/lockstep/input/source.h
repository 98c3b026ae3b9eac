#pragma once

// Sources: a fixed number of items per epoch, each a function of two numbers. Because an item
// depends on nothing else, any thread may make it at any time, and going to a position costs
// nothing. Decorators take a source by value: move a large one in.

#include <lockstep/random.h>

#include <concepts>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep::input {

/// `at(epoch, index)`, 0 <= index < size(): the same item for the same two numbers, whichever
/// thread asks and how often. May be called from several threads at once.
///
/// A source may also offer
///   Batch gather(std::int64_t epoch, std::span<const std::int64_t> indices) const;
/// that makes a whole batch in one go, equal to the batch of the single items.
template <class S>
concept Source = requires(const S& source, std::int64_t number) {
  { source.size() } -> std::convertible_to<std::int64_t>;
  source.at(number, number);
};

template <class S>
concept Gathers = Source<S> && requires(const S& source, std::span<const std::int64_t> indices) {
  source.gather(std::int64_t{}, indices);
};

template <Source S>
using ItemOf = std::decay_t<decltype(std::declval<const S&>().at(0, 0))>;

/// The number that an item had before it was shuffled.
template <Source S>
std::int64_t original(const S& source, std::int64_t epoch, std::int64_t index) {
  if constexpr (requires { source.original(epoch, index); })
    return source.original(epoch, index);
  else
    return index;
}

template <Source S, class Fn>
class Mapped {
 public:
  Mapped(S source, Fn fn, std::uint64_t seed)
      : source_(std::move(source)), fn_(std::move(fn)), seed_(seed) {}

  std::int64_t size() const { return source_.size(); }

  auto at(std::int64_t epoch, std::int64_t index) const {
    if constexpr (std::invocable<const Fn&, ItemOf<S>, KeyedRandom&>) {
      KeyedRandom random(seed_, epoch, original(epoch, index));
      return fn_(source_.at(epoch, index), random);
    } else {
      return fn_(source_.at(epoch, index));
    }
  }

  std::int64_t original(std::int64_t epoch, std::int64_t index) const {
    return input::original(source_, epoch, index);
  }

 private:
  S source_;
  Fn fn_;
  std::uint64_t seed_;
};

/// Each item through fn(item), or through fn(item, random) with a KeyedRandom& that belongs to
/// (seed, epoch, the item's original number): the same before and after shuffling.
/// `fn` is called from several threads at once.
template <Source S, class Fn>
Mapped<S, Fn> map(S source, Fn fn, std::uint64_t seed = 0) {
  return {std::move(source), std::move(fn), seed};
}

template <Source S>
class Shuffled {
 public:
  Shuffled(S source, std::uint64_t seed) : source_(std::move(source)), seed_(seed) {}

  std::int64_t size() const { return source_.size(); }

  auto at(std::int64_t epoch, std::int64_t index) const {
    return source_.at(epoch, place(epoch, index));
  }

  auto gather(std::int64_t epoch, std::span<const std::int64_t> indices) const requires Gathers<S> {
    std::vector<std::int64_t> places;
    places.reserve(indices.size());
    for (const std::int64_t index : indices) places.push_back(place(epoch, index));
    return source_.gather(epoch, places);
  }

  std::int64_t original(std::int64_t epoch, std::int64_t index) const {
    return input::original(source_, epoch, place(epoch, index));
  }

 private:
  std::int64_t place(std::int64_t epoch, std::int64_t index) const {
    return permuted(index, source_.size(), seed_, epoch);
  }

  S source_;
  std::uint64_t seed_;
};

/// All items in an order that belongs to (seed, epoch). O(1): no list of numbers is kept.
template <Source S>
Shuffled<S> shuffle(S source, std::uint64_t seed) {
  return {std::move(source), seed};
}

}  // namespace lockstep::input
