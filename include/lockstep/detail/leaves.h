#pragma once

// What a batch is made of. The contract is in batch.h.

#include <torch/torch.h>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

namespace lockstep {

/// A batch type that cuts itself.
template <class Batch>
concept OwnBatch = requires(const Batch& batch) {
  { batch.shard(0, 1) } -> std::convertible_to<Batch>;
};

/// A batch type that names its members that are cut: tensors, or other batches.
template <class Batch>
concept OfTensors = std::copyable<Batch> && requires(Batch& batch) {
  batch.tensors();
};

/// An Example without a target.
template <class Data>
using DataOnly = torch::data::Example<Data, torch::data::example::NoTarget>;

namespace detail {

template <class Batch>
inline constexpr bool kShardable = OwnBatch<Batch>;
template <class Result>
inline constexpr bool kTied = false;  ///< what tensors() has to return
template <class First, class... Others>
inline constexpr bool kTied<std::tuple<First&, Others&...>> = kShardable<First> &&
                                                              (kShardable<Others> && ...);

template <>
inline constexpr bool kShardable<torch::Tensor> = true;
template <OfTensors Batch>
inline constexpr bool kShardable<Batch> =
    OwnBatch<Batch> || kTied<decltype(std::declval<Batch&>().tensors())>;
template <class Data, class Target>
inline constexpr bool kShardable<torch::data::Example<Data, Target>> =
    kShardable<Data>&& kShardable<Target>;
template <class Data>
inline constexpr bool kShardable<DataOnly<Data>> = kShardable<Data>;
template <class First, class Second>
inline constexpr bool kShardable<std::pair<First, Second>> = kShardable<First>&& kShardable<Second>;
template <class First, class... Others>
inline constexpr bool kShardable<std::tuple<First, Others...>> = kShardable<First> &&
                                                                 (kShardable<Others> && ...);
template <class Item, std::size_t size>
inline constexpr bool kShardable<std::array<Item, size>> = kShardable<Item>;
template <class Item>
inline constexpr bool kShardable<std::vector<Item>> = kShardable<Item>;

/// A list of Examples, each of which is one row.
template <class Batch>
inline constexpr bool kIsList = false;
template <class Data, class Target>
inline constexpr bool kIsList<std::vector<torch::data::Example<Data, Target>>> = true;

/// Calls `action` with every leaf of a batch, in order: a tensor, a batch that cuts itself, or a
/// list of Examples.
template <class Action>
struct Leaves {
  const Action& action;

  void visit(torch::Tensor& leaf) const { action(leaf); }

  template <OwnBatch Batch>
  void visit(Batch& leaf) const {
    action(leaf);
  }
  template <OfTensors Batch>
  requires(!OwnBatch<Batch>) void visit(Batch& batch) const {
    std::apply([this](auto&... parts) { (visit(parts), ...); }, batch.tensors());
  }
  template <class Data, class Target>
  void visit(torch::data::Example<Data, Target>& batch) const {
    visit(batch.data);
    visit(batch.target);
  }
  template <class Data>
  void visit(DataOnly<Data>& batch) const {
    visit(batch.data);
  }
  template <class First, class Second>
  void visit(std::pair<First, Second>& batch) const {
    visit(batch.first);
    visit(batch.second);
  }
  template <class... Parts>
  void visit(std::tuple<Parts...>& batch) const {
    std::apply([this](Parts&... parts) { (visit(parts), ...); }, batch);
  }
  template <class Item, std::size_t size>
  void visit(std::array<Item, size>& batch) const {
    for (Item& item : batch) visit(item);
  }
  template <class Item>
  void visit(std::vector<Item>& batch) const {
    if constexpr (kIsList<std::vector<Item>>)
      action(batch);
    else
      for (Item& item : batch) visit(item);
  }
};

template <class Batch, class Action>
void for_each_leaf(Batch& batch, const Action& action) {
  Leaves<Action>{action}.visit(batch);
}

/// Rows of a leaf that does not cut itself; kUndefined for an undefined tensor. Throws ConfigError
/// for a tensor of 0 dimensions.
inline constexpr std::int64_t kUndefined = -2;
std::int64_t rows_of(const torch::Tensor& leaf);
template <class Data, class Target>
std::int64_t rows_of(const std::vector<torch::data::Example<Data, Target>>& leaf) {
  return static_cast<std::int64_t>(leaf.size());
}

/// Throws ConfigError unless all numbers are the same; kUndefined ones do not count.
void require_same(const std::vector<std::int64_t>& rows);

/// Throws ConfigError unless all tensors of a batch have the same number of rows. Members that cut
/// themselves are not looked at.
template <class Batch>
void require_same_rows(const Batch& batch) {
  if constexpr (!OwnBatch<Batch>) {
    std::vector<std::int64_t> found;
    Batch handles = batch;
    for_each_leaf(handles, [&]<class Leaf>(const Leaf& leaf) {
      if constexpr (!OwnBatch<Leaf>) found.push_back(rows_of(leaf));
    });
    require_same(found);
  }
}

}  // namespace detail

}  // namespace lockstep
