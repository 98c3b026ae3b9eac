#pragma once

// How a batch is cut into shards: by rows, the first dimension of its tensors.
//
// `part(batch, i, n)` is shard i of n of a tensor, a torch::data::Example, and of pairs, tuples,
// arrays and vectors of them. A vector of Examples is a list of rows (what a LibTorch loader gives
// without Stack): there the list itself is cut. A batch type of your own offers either
//
//   auto tensors() { return std::tie(first, second); }  // its tensors: each is cut by rows
//
// or, when cutting is another matter,
//
//   Batch shard(int i, int n) const;        // shard i of n
//   std::int64_t rows() const;              // optional: needed when the loss is a mean over rows
//
// Shards are views, no copies. Their sizes differ by at most one row; with fewer rows than shards
// some are empty.

#include <torch/torch.h>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

namespace lockstep {

template <class Batch>
concept OwnBatch = requires(const Batch& batch) {
  { batch.shard(0, 1) } -> std::convertible_to<Batch>;
};

/// A type with members that are tensors, or batches of another kind, among others that are not.
template <class Batch>
concept OfTensors = std::copyable<Batch> && requires(Batch& batch) {
  batch.tensors();
};

template <class Batch>
concept OwnRows = requires(const Batch& batch) {
  { batch.rows() } -> std::convertible_to<std::int64_t>;
};

/// The first row of shard `i` when `rows` are cut into `n`; shard i ends where shard i + 1 begins.
inline std::int64_t shard_begin(std::int64_t rows, int i, int n) { return rows * i / n; }

inline torch::Tensor part(const torch::Tensor& batch, int i, int n) {
  const std::int64_t begin = shard_begin(batch.size(0), i, n);
  return batch.narrow(0, begin, shard_begin(batch.size(0), i + 1, n) - begin);
}

template <OwnBatch Batch>
Batch part(const Batch& batch, int i, int n) {
  return batch.shard(i, n);
}

template <OfTensors Batch>
Batch part(const Batch& batch, int i, int n);

/// An Example without a target.
template <class Data>
using DataOnly = torch::data::Example<Data, torch::data::example::NoTarget>;

// Declared first, so that they can hold one another.
template <class Data, class Target>
torch::data::Example<Data, Target> part(const torch::data::Example<Data, Target>&, int i, int n);
template <class Data>
DataOnly<Data> part(const DataOnly<Data>&, int i, int n);
template <class First, class Second>
std::pair<First, Second> part(const std::pair<First, Second>&, int i, int n);
template <class... Parts>
std::tuple<Parts...> part(const std::tuple<Parts...>&, int i, int n);
template <class Item, std::size_t size>
std::array<Item, size> part(const std::array<Item, size>&, int i, int n);
template <class Item>
std::vector<Item> part(const std::vector<Item>&, int i, int n);
template <class Data, class Target>
std::vector<torch::data::Example<Data, Target>> part(
    const std::vector<torch::data::Example<Data, Target>>&, int i, int n);

template <OfTensors Batch>
Batch part(const Batch& batch, int i, int n) {
  Batch result = batch;
  std::apply([&](auto&... parts) { ((parts = part(parts, i, n)), ...); }, result.tensors());
  return result;
}

template <class Data, class Target>
torch::data::Example<Data, Target> part(const torch::data::Example<Data, Target>& batch, int i,
                                        int n) {
  return {part(batch.data, i, n), part(batch.target, i, n)};
}

template <class Data>
DataOnly<Data> part(const DataOnly<Data>& batch, int i, int n) {
  return {part(batch.data, i, n)};
}

template <class First, class Second>
std::pair<First, Second> part(const std::pair<First, Second>& batch, int i, int n) {
  return {part(batch.first, i, n), part(batch.second, i, n)};
}

template <class... Parts>
std::tuple<Parts...> part(const std::tuple<Parts...>& batch, int i, int n) {
  return std::apply(
      [&](const Parts&... parts) { return std::tuple<Parts...>(part(parts, i, n)...); }, batch);
}

template <class Item, std::size_t size>
std::array<Item, size> part(const std::array<Item, size>& batch, int i, int n) {
  std::array<Item, size> result;
  for (std::size_t k = 0; k < size; ++k) result[k] = part(batch[k], i, n);
  return result;
}

template <class Item>
std::vector<Item> part(const std::vector<Item>& batch, int i, int n) {
  std::vector<Item> result;
  for (const Item& item : batch) result.push_back(part(item, i, n));
  return result;
}

template <class Data, class Target>
std::vector<torch::data::Example<Data, Target>> part(
    const std::vector<torch::data::Example<Data, Target>>& batch, int i, int n) {
  const auto size = static_cast<std::int64_t>(batch.size());
  return {batch.begin() + shard_begin(size, i, n), batch.begin() + shard_begin(size, i + 1, n)};
}

/// All shards of a batch.
template <class Batch>
std::vector<Batch> split(const Batch& batch, int n) {
  std::vector<Batch> shards;
  for (int i = 0; i < n; ++i) shards.push_back(part(batch, i, n));
  return shards;
}

inline constexpr std::int64_t kUnknownRows = -1;

/// Rows of a batch: those of its first tensor; kUnknownRows for a type of your own without rows().
inline std::int64_t rows(const torch::Tensor& batch) { return batch.size(0); }

template <OwnBatch Batch>
std::int64_t rows(const Batch& batch) {
  if constexpr (OwnRows<Batch>) return batch.rows();
  return kUnknownRows;
}

template <OfTensors Batch>
std::int64_t rows(const Batch& batch) {
  Batch handles = batch;
  return rows(std::get<0>(handles.tensors()));
}

template <class Data, class Target>
std::int64_t rows(const torch::data::Example<Data, Target>& batch) {
  return rows(batch.data);
}

template <class First, class Second>
std::int64_t rows(const std::pair<First, Second>& batch) {
  return rows(batch.first);
}

template <class... Parts>
std::int64_t rows(const std::tuple<Parts...>& batch) {
  return rows(std::get<0>(batch));
}

template <class Item, std::size_t size>
std::int64_t rows(const std::array<Item, size>& batch) {
  return rows(batch.front());
}

template <class Data, class Target>
std::int64_t rows(const std::vector<torch::data::Example<Data, Target>>& batch) {
  return static_cast<std::int64_t>(batch.size());
}

template <class Item>
std::int64_t rows(const std::vector<Item>& batch) {
  return batch.empty() ? 0 : rows(batch.front());
}

}  // namespace lockstep
