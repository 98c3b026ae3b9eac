#pragma once

// Sources: a fixed number of items per epoch, each a function of two numbers. Because an item
// depends on nothing else, any thread may make it at any time, and going to a position costs
// nothing. Decorators take a source by value: move a large one in.

#include <lockstep/random.h>
#include <lockstep/share.h>

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
/// that makes a whole batch in one go, equal to the batch of the single items. Each row must depend
/// on its item alone: the rows of a batch may be asked for in several calls, on several machines.
/// One that cannot promise that says `static constexpr bool kGathersWhole = true`.
template <class S>
concept Source = requires(const S& source, std::int64_t number) {
  { source.size() } -> std::convertible_to<std::int64_t>;
  source.at(number, number);
};

template <class S>
concept Gathers = Source<S> && requires(const S& source, std::span<const std::int64_t> indices) {
  source.gather(std::int64_t{}, indices);
};

template <class S>
inline constexpr bool kGathersWhole = false;
template <class S>
requires(S::kGathersWhole) inline constexpr bool kGathersWhole<S> = true;

template <Source S>
using ItemOf = std::decay_t<decltype(std::declval<const S&>().at(0, 0))>;

/// A source of batches that can make some rows of one alone, bit for bit those of the whole batch:
///   std::int64_t rows(std::int64_t epoch, std::int64_t index) const;  // of the whole batch
///   Batch at(std::int64_t epoch, std::int64_t index, const RowRange& rows) const;  // never of
///   none
template <class S>
concept MakesRows = Source<S> && std::default_initializable<ItemOf<S>> &&
    requires(const S& source, std::int64_t number, const RowRange& rows) {
  { source.rows(number, number) } -> std::convertible_to<std::int64_t>;
  { source.at(number, number, rows) } -> std::convertible_to<ItemOf<S>>;
};

/// An item, and how much of a batch it is.
template <class Item>
struct Made {
  Item item;
  Portion portion = {};
};

/// What a share has of an item; the whole item if the source makes only those.
template <Source S>
Made<ItemOf<S>> made(const S& source, std::int64_t epoch, std::int64_t index, const Share& share) {
  if constexpr (MakesRows<S>)
    if (!share.whole()) {
      const Portion portion{share, source.rows(epoch, index)};
      if (portion.range().empty()) return {ItemOf<S>{}, portion};
      return {source.at(epoch, index, portion.range()), portion};
    }
  return {source.at(epoch, index)};
}

/// A function of batches that treats each row on its own: made by by_rows().
template <class Fn>
struct ByRows {
  Fn fn;

  template <class Batch>
  requires std::invocable<const Fn&, Batch>
  decltype(auto) operator()(Batch&& batch) const { return fn(std::forward<Batch>(batch)); }
};

/// Says of a function for map that each row of its result depends on the same row of the batch
/// alone. Then a process that computes some shards gives it only their rows. It is not called for
/// batches without rows. One that pads to the longest row, or draws random numbers, is not by rows.
template <class Fn>
ByRows<Fn> by_rows(Fn fn) {
  return {std::move(fn)};
}

template <class Fn>
inline constexpr bool kByRows = false;
template <class Fn>
inline constexpr bool kByRows<ByRows<Fn>> = true;

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

  std::int64_t rows(std::int64_t epoch, std::int64_t index) const
      requires(kByRows<Fn>&& MakesRows<S>) {
    return source_.rows(epoch, index);
  }
  auto at(std::int64_t epoch, std::int64_t index, const RowRange& rows) const
      requires(kByRows<Fn>&& MakesRows<S>) {
    return fn_(source_.at(epoch, index, rows));
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
/// `fn` is called from several threads at once. A function of batches is given whole ones, unless
/// it says by_rows().
template <Source S, class Fn>
Mapped<S, Fn> map(S source, Fn fn, std::uint64_t seed = 0) {
  return {std::move(source), std::move(fn), seed};
}

template <Source S>
class Shuffled {
 public:
  static constexpr bool kGathersWhole = input::kGathersWhole<S>;

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

  std::int64_t rows(std::int64_t epoch, std::int64_t index) const requires MakesRows<S> {
    return source_.rows(epoch, place(epoch, index));
  }
  auto at(std::int64_t epoch, std::int64_t index,
          const RowRange& rows) const requires MakesRows<S> {
    return source_.at(epoch, place(epoch, index), rows);
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
