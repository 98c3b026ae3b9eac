#pragma once

// Batches of the items of a source or a stream.

#include <lockstep/error.h>
#include <lockstep/input/source.h>
#include <lockstep/input/stream.h>
#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace lockstep::input {

/// Items as one batch. Tensors and Examples of tensors are stacked: all of a source have the same
/// shape, dtype and memory format. Other items become a vector of them. For a type of your own,
/// specialise Collate or map the vectors. With kByRows each row of the batch depends on its item
/// alone, so that a batch may be made of some of its items; without, it is made of all of them.
template <class Item>
struct Collate {
  static constexpr bool kByRows = true;
  std::vector<Item> operator()(std::vector<Item> items) const { return items; }
};

template <>
struct Collate<torch::Tensor> {
  static constexpr bool kByRows = true;
  torch::Tensor operator()(const std::vector<torch::Tensor>& items) const {
    return torch::stack(items);
  }
};

template <>
struct Collate<torch::data::Example<>> {
  static constexpr bool kByRows = true;
  torch::data::Example<> operator()(const std::vector<torch::data::Example<>>& items) const {
    std::vector<torch::Tensor> data, target;
    for (const auto& item : items) {
      data.push_back(item.data);
      target.push_back(item.target);
    }
    return {torch::stack(data), torch::stack(target)};
  }
};

template <class Item>
inline constexpr bool kCollatesRows = requires {
  requires Collate<Item>::kByRows;
};

template <class Item>
using BatchOf = decltype(Collate<Item>{}(std::vector<Item>{}));

/// What to do with the last batch of an epoch if it is smaller than the others.
enum class Last {
  keep,
  drop,
  merge,   ///< of a source: with fewer than `least` rows it becomes part of the batch before it
  spread,  ///< of a source: share the rows of an epoch out, so that batches differ by one at most
};

inline void check_rows(std::int64_t rows) {
  if (rows < 1)
    throw ConfigError("a batch has at least one row: " + std::to_string(rows) + " were asked for");
}

template <Source S>
class Batched {
 public:
  /// Whether it makes some rows of a batch alone.
  static constexpr bool kRows = Gathers<S> ? !kGathersWhole<S> : kCollatesRows<ItemOf<S>>;

  Batched(S source, std::int64_t rows, Last last, std::int64_t least)
      : source_(std::move(source)), rows_(rows), last_(last), least_(least) {
    check_rows(rows);
  }

  std::int64_t size() const {
    const std::int64_t items = source_.size(), rest = items % rows_;
    const bool joins = last_ == Last::merge && rest < least_ && items > rows_;
    return items / rows_ + (rest == 0 || last_ == Last::drop || joins ? 0 : 1);
  }

  auto at(std::int64_t epoch, std::int64_t index) const {
    return make(epoch, index, {0, rows(epoch, index)});
  }

  /// Of a batch.
  std::int64_t rows(std::int64_t, std::int64_t index) const {
    return begin(index + 1) - begin(index);
  }
  auto at(std::int64_t epoch, std::int64_t index, const RowRange& rows) const requires(kRows) {
    return make(epoch, index, rows);
  }

 private:
  auto make(std::int64_t epoch, std::int64_t index, const RowRange& rows) const {
    std::vector<std::int64_t> indices(static_cast<std::size_t>(rows.size()));
    std::iota(indices.begin(), indices.end(), begin(index) + rows.begin);
    if constexpr (Gathers<S>) {
      return source_.gather(epoch, indices);
    } else {
      std::vector<ItemOf<S>> items;
      items.reserve(indices.size());
      for (const std::int64_t i : indices) items.push_back(source_.at(epoch, i));
      return Collate<ItemOf<S>>{}(std::move(items));
    }
  }

  /// The first item of a batch; of the number of batches, the end of the last one.
  std::int64_t begin(std::int64_t index) const {
    const std::int64_t items = source_.size(), batches = size();
    if (last_ == Last::spread) return items / batches * index + items % batches * index / batches;
    return index == batches && last_ != Last::drop ? items : index * rows_;
  }

  S source_;
  std::int64_t rows_;
  Last last_;
  std::int64_t least_;
};

/// A source of batches of `rows` items: those of one epoch, the last one as `last` says.
template <Source S>
Batched<S> batch(S source, std::int64_t rows, Last last = Last::keep, std::int64_t least = 0) {
  return {std::move(source), rows, last, least};
}

/// Items of a stream are made one after the other, and so all of them: its batches are whole ones.
template <class T>
class BatchedStream : public Stream<BatchOf<T>> {
 public:
  BatchedStream(std::unique_ptr<Stream<T>> inner, std::int64_t rows, Last last)
      : inner_(std::move(inner)), rows_(static_cast<std::size_t>(rows)), last_(last) {
    check_rows(rows);
    if (last == Last::merge || last == Last::spread)
      throw ConfigError(
          "a stream does not know how long its epochs are, so Last::merge and Last::spread are for "
          "batches of a source: batch the source, or keep or drop the last batch");
  }

  std::optional<BatchOf<T>> next() override {
    return or_stay(*inner_, [&]() -> std::optional<BatchOf<T>> {
      std::vector<T> items = take_of_epoch(*inner_, rows_);
      const auto too_few = [&] { return last_ == Last::drop && items.size() < rows_; };
      if (too_few()) items = take_of_epoch(*inner_, rows_);
      // A whole epoch without a batch: so will all others be.
      if (items.empty() || too_few()) return std::nullopt;
      return Collate<T>{}(std::move(items));
    });
  }

  Position position() const override { return inner_->position(); }
  void seek(const Position& position) override { inner_->seek(position); }

 private:
  std::unique_ptr<Stream<T>> inner_;
  std::size_t rows_;
  Last last_;
};

/// A stream of batches of `rows` items, none of them from two epochs.
template <class T>
std::unique_ptr<Stream<BatchOf<T>>> batch(std::unique_ptr<Stream<T>> inner, std::int64_t rows,
                                          Last last = Last::keep) {
  return std::make_unique<BatchedStream<T>>(std::move(inner), rows, last);
}

}  // namespace lockstep::input
